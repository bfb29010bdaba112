//! What a model costs, and the port behind which a price table stands.

use crate::{
    faults::{Plant, planted},
    money::NanoUsd,
    usage::TokenUsage,
};
use serde::{Deserialize, Serialize};

/// Prices of one model, in nano-dollars for a million tokens of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    /// Fresh input.
    pub input_usd_per_million: NanoUsd,
    /// Output and reasoning.
    pub output_usd_per_million: NanoUsd,
    /// Input from a cache. Absent: as fresh input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_usd_per_million: Option<NanoUsd>,
    /// The most output tokens that the model gives in one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

impl Price {
    /// The cost of a call, rounded up to the next nano-dollar; `None` if it does not fit.
    pub fn cost(&self, usage: &TokenUsage) -> Option<NanoUsd> {
        let cached = self
            .cached_input_usd_per_million
            .unwrap_or(self.input_usd_per_million);
        let output = u128::from(usage.tokens_out) + u128::from(usage.tokens_reasoning);
        let total = u128::from(usage.tokens_in) * u128::from(self.input_usd_per_million.0)
            + u128::from(usage.tokens_cached) * u128::from(cached.0)
            + output * u128::from(self.output_usd_per_million.0);
        let mut cost = total.div_ceil(1_000_000);
        if planted(Plant::CostWraps) {
            cost &= u128::from(u64::MAX);
        }
        u64::try_from(cost).ok().map(NanoUsd)
    }

    /// The most that a call can cost: every byte of input a token, all output that is allowed.
    pub fn worst_case(&self, input_bytes: u64, max_output_tokens: u32) -> Option<NanoUsd> {
        let dearest = self
            .cached_input_usd_per_million
            .unwrap_or(NanoUsd::ZERO)
            .max(self.input_usd_per_million);
        let worst = Self {
            input_usd_per_million: dearest,
            ..*self
        };
        worst.cost(&TokenUsage {
            tokens_in: input_bytes,
            tokens_out: u64::from(max_output_tokens),
            ..TokenUsage::default()
        })
    }
}

/// A price table. An unknown price is unknown, never zero.
pub trait Prices: Send + Sync + std::fmt::Debug {
    /// The price of `provider/model`.
    fn price(&self, model: &str) -> Option<Price>;
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price {
        input_usd_per_million: NanoUsd(400_000_000),
        output_usd_per_million: NanoUsd(1_600_000_000),
        cached_input_usd_per_million: Some(NanoUsd(100_000_000)),
        max_output_tokens: None,
    };

    #[test]
    fn every_bucket_has_its_price() {
        let usage = TokenUsage {
            tokens_in: 1_000,
            tokens_out: 10,
            tokens_cached: 500,
            tokens_reasoning: 5,
        };
        assert_eq!(PRICE.cost(&usage), Some(NanoUsd(400_000 + 50_000 + 15 * 1_600)));
    }

    #[test]
    fn a_cost_rounds_up_and_never_wraps() {
        let dear = Price {
            input_usd_per_million: NanoUsd(1),
            ..PRICE
        };
        assert_eq!(
            dear.cost(&TokenUsage {
                tokens_in: 1,
                ..TokenUsage::default()
            }),
            Some(NanoUsd(1))
        );
        let endless = TokenUsage {
            tokens_in: u64::MAX,
            ..TokenUsage::default()
        };
        assert_eq!(PRICE.cost(&endless), None);
    }
}
