//! The price table.
//!
//! `builtin.json` holds what the vendors' public price pages say for text at the standard tier; it names the pages and the
//! day. Prices change without notice, and a wrong price is worse than none: a model that is not listed, a dated snapshot
//! included, has no price until the configuration states one.

use portolan_core::{
    money::NanoUsd,
    price::{Price, Prices},
};
use serde::Deserialize;
use std::collections::BTreeMap;

const BUILTIN: &str = include_str!("builtin.json");

/// A price as it is written in the configuration: decimal dollars, as text, for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PriceEntry {
    /// Fresh input.
    pub input_usd_per_million: NanoUsd,
    /// Output and reasoning.
    pub output_usd_per_million: NanoUsd,
    /// Input from a cache. Absent: as fresh input.
    #[serde(default)]
    pub cached_input_usd_per_million: Option<NanoUsd>,
    /// The most output tokens that the model gives in one answer.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
}

impl From<PriceEntry> for Price {
    fn from(entry: PriceEntry) -> Self {
        Self {
            input_usd_per_million: entry.input_usd_per_million,
            output_usd_per_million: entry.output_usd_per_million,
            cached_input_usd_per_million: entry.cached_input_usd_per_million,
            max_output_tokens: entry.max_output_tokens,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Builtin {
    as_of: String,
    #[expect(dead_code, reason = "for whoever reads the file")]
    sources: BTreeMap<String, String>,
    models: BTreeMap<String, PriceEntry>,
}

/// Why an override is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceTableError {
    /// Its name covers no model.
    #[error("expected a price for provider/model or for provider/*, not for {0:?}")]
    Name(String),
}

/// Prices by `provider/model`: what was stated, and below it the built-in table.
///
/// `provider/*` prices every model of a provider that no line of its own does, built-in ones included. That is how local
/// models get their price: `"ollama/*" = { inputUsdPerMillion = "0", outputUsdPerMillion = "0" }`.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    models: BTreeMap<String, Price>,
    providers: BTreeMap<String, Price>,
    builtin: BTreeMap<String, Price>,
}

impl PriceTable {
    /// A table without any price.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The built-in table.
    pub fn builtin() -> Self {
        let models = builtin().models.into_iter();
        Self {
            builtin: models.map(|(name, entry)| (name, entry.into())).collect(),
            ..Self::default()
        }
    }

    /// The day on which the built-in prices were looked up.
    pub fn builtin_as_of() -> String {
        builtin().as_of
    }

    /// The built-in table with the configured prices on top.
    pub fn with_overrides(
        overrides: impl IntoIterator<Item = (String, PriceEntry)>,
    ) -> Result<Self, PriceTableError> {
        let mut table = Self::builtin();
        for (name, entry) in overrides {
            table.set(&name, entry)?;
        }
        Ok(table)
    }

    /// States a price, in the place of the one that was there.
    pub fn set(&mut self, name: &str, price: impl Into<Price>) -> Result<(), PriceTableError> {
        match name.split_once('/') {
            Some((provider, "*")) if !provider.is_empty() => {
                self.providers.insert(provider.to_owned(), price.into());
            }
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                self.models.insert(name.to_owned(), price.into());
            }
            _ => return Err(PriceTableError::Name(name.to_owned())),
        }
        Ok(())
    }
}

impl Prices for PriceTable {
    fn price(&self, model: &str) -> Option<Price> {
        let stated = self.models.get(model);
        let (provider, _) = model.split_once('/')?;
        let found = stated.or_else(|| self.providers.get(provider));
        found.or_else(|| self.builtin.get(model)).copied()
    }
}

fn builtin() -> Builtin {
    serde_json::from_str(BUILTIN).expect("the built-in price table is valid, as its test shows")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(value: serde_json::Value) -> Result<PriceEntry, serde_json::Error> {
        serde_json::from_value(value)
    }

    fn flat(price: &str) -> PriceEntry {
        entry(json!({"inputUsdPerMillion": price, "outputUsdPerMillion": price})).expect("an entry")
    }

    #[test]
    fn the_built_in_table_is_whole_and_plausible() {
        let builtin = builtin();
        assert!(builtin.models.len() >= 12);
        assert_eq!(builtin.as_of.len(), "2026-01-01".len());
        for (name, entry) in &builtin.models {
            name.parse::<crate::ModelName>().expect("a full name");
            assert!(entry.input_usd_per_million > NanoUsd::ZERO, "{name}");
            assert!(
                entry.output_usd_per_million > entry.input_usd_per_million,
                "{name}"
            );
            let cached = entry.cached_input_usd_per_million.expect("a cached price");
            assert!(
                NanoUsd::ZERO < cached && cached < entry.input_usd_per_million,
                "{name}"
            );
            assert!(entry.max_output_tokens.is_some(), "{name}");
        }
        let mini = PriceTable::builtin()
            .price("openai/gpt-4.1-mini")
            .expect("a price");
        assert_eq!(mini.input_usd_per_million, NanoUsd(400_000_000));
    }

    #[test]
    fn an_unknown_model_has_no_price() {
        let table = PriceTable::builtin();
        for name in [
            "openai/gpt-99",
            "openai/gpt-4.1-mini-2025-04-14",
            "ollama/qwen3:8b",
            "gpt-4.1-mini",
            "",
        ] {
            assert_eq!(table.price(name), None, "{name}");
        }
    }

    #[test]
    fn one_line_prices_a_local_provider_and_a_line_of_its_own_wins() {
        let overrides = [
            ("ollama/big".to_owned(), flat("0.25")),
            ("ollama/*".to_owned(), flat("0")),
            ("openai/gpt-4.1".to_owned(), flat("3")),
        ];
        let table = PriceTable::with_overrides(overrides).expect("prices");
        let input = |name: &str| table.price(name).map(|price| price.input_usd_per_million);
        assert_eq!(input("ollama/qwen3:8b"), Some(NanoUsd::ZERO));
        assert_eq!(input("ollama/big"), Some(NanoUsd(250_000_000)));
        assert_eq!(input("openai/gpt-4.1"), Some(NanoUsd(3_000_000_000)));
        assert_eq!(input("openai/gpt-4.1-mini"), Some(NanoUsd(400_000_000)));
        assert_eq!(input("vllm/any"), None);
    }

    #[test]
    fn a_line_for_a_whole_provider_covers_its_built_in_prices() {
        let table = PriceTable::with_overrides([("openai/*".to_owned(), flat("1"))]).expect("prices");
        let price = table
            .price("openai/gpt-4.1-mini")
            .map(|price| price.input_usd_per_million);
        assert_eq!(price, Some(NanoUsd(1_000_000_000)));
        assert!(table.price("openrouter/openai/gpt-4.1").is_some());
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for bad in [
            json!({"inputUsdPerMillion": "1"}),
            json!({"inputUsdPerMillion": "-1", "outputUsdPerMillion": "1"}),
            json!({"inputUsdPerMillion": 1.5, "outputUsdPerMillion": "1"}),
            json!({"inputUsdPerMillion": "1", "outputUsdPerMillion": "1", "outputUsd": "1"}),
        ] {
            assert!(entry(bad.clone()).is_err(), "{bad}");
        }
        for name in ["gpt-4.1", "/x", "openai/"] {
            let refused = PriceTable::empty().set(name, flat("1"));
            assert_eq!(refused, Err(PriceTableError::Name(name.into())));
        }
    }
}
