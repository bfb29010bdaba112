//! Providers: presets, what the file says of them, and keys from the environment.

use super::{
    Environment, Setting, Source,
    file::{FileProvider, ProviderKind},
};
use crate::failure::Failure;
use portolan_router::{Dialect, Preset, ProviderConfig, Secret};
use std::{collections::BTreeMap, path::Path};

/// Keys that are recognised only to say that their providers are not supported yet.
const UNSUPPORTED: [(&str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "anthropic"),
    ("GEMINI_API_KEY", "gemini"),
    ("GOOGLE_API_KEY", "google"),
];

/// Where a provider's key was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySource {
    /// The variable of the environment.
    pub variable: String,
    /// Its last four characters, if the key was found and is long enough to show them.
    pub last_four: Option<String>,
    /// Whether it was found.
    pub found: bool,
}

/// A provider that can be called.
#[derive(Debug, Clone)]
pub struct Provider {
    /// What the router is told.
    pub config: ProviderConfig,
    /// Which dialect it speaks.
    pub kind: ProviderKind,
    /// Where the base URL came from.
    pub base_url: Setting<String>,
    /// Where its key was looked for.
    pub key: KeySource,
}

impl Provider {
    /// Whether somebody asked for it, by a line, a key or a base URL; else it is there as a preset.
    pub fn is_asked_for(&self) -> bool {
        self.key.found || self.base_url.source != Source::Default
    }
}

/// The providers that are there: those of the file, and presets that have a key or need none.
pub(super) fn providers(
    mut typed: BTreeMap<String, FileProvider>,
    environment: &Environment<'_>,
    file: Option<&Path>,
    is_private_allowed: bool,
) -> Result<Vec<Provider>, Failure> {
    let mut found = Vec::new();
    for preset in Preset::ALL {
        let written = typed.remove(preset.name());
        let is_written = written.is_some();
        let provider = provider(preset.name(), written.unwrap_or_default(), environment, file)?;
        let needs_no_key = match preset {
            Preset::OpenAi | Preset::OpenRouter => false,
            Preset::Vllm | Preset::Ollama => is_private_allowed,
        };
        if is_written || needs_no_key || provider.is_asked_for() {
            found.push(provider);
        }
    }
    for (name, written) in typed {
        if let Some((_, name)) = UNSUPPORTED.iter().find(|(_, unsupported)| *unsupported == name)
            && written.base_url.is_none()
        {
            return Err(Failure::usage(format!("the provider {name} is not supported yet"))
                .hint("give a baseUrl that speaks OpenAI's chat completions, or reach the model through openrouter"));
        }
        found.push(provider(&name, written, environment, file)?);
    }
    Ok(found)
}

/// Keys in the environment that nothing can be done with yet.
pub(super) fn unsupported_keys(environment: &Environment<'_>) -> Vec<&'static str> {
    let variables = UNSUPPORTED.iter().map(|(variable, _)| *variable);
    variables
        .filter(|variable| environment(variable).is_some())
        .collect()
}

/// The providers that are recognised and not supported yet.
pub(crate) fn is_unsupported(provider: &str) -> bool {
    UNSUPPORTED
        .iter()
        .any(|(_, unsupported)| *unsupported == provider)
}

fn provider(
    name: &str,
    written: FileProvider,
    environment: &Environment<'_>,
    file: Option<&Path>,
) -> Result<Provider, Failure> {
    let kind = written
        .kind
        .or_else(|| usual_kind(name))
        .unwrap_or(ProviderKind::Compatible);
    let base_url = base_url(name, kind, written.base_url, environment, file)?;
    let variable = written
        .api_key_env
        .unwrap_or_else(|| format!("{}_API_KEY", shout(name)));
    let secret = environment(&variable);
    let key = KeySource {
        last_four: secret
            .as_ref()
            .and_then(|key| Secret::new(key.clone()).last_four()),
        found: secret.is_some(),
        variable,
    };
    let usual = dialect(kind);
    let dialect = Dialect {
        tool_choice: written.tool_choice.map_or(usual.tool_choice, Into::into),
        strict_result: written.strict_result.unwrap_or(usual.strict_result),
        ..usual
    };
    let headers = written.headers.into_iter();
    let config = ProviderConfig {
        api_key: secret.map(Secret::new),
        timeout_ms: written.timeout_ms.unwrap_or(ProviderConfig::DEFAULT_TIMEOUT_MS),
        headers: headers
            .map(|(header, value)| (header, Secret::new(value)))
            .collect(),
        dialect,
        honours_idempotency_keys: written.honours_idempotency_keys.unwrap_or(false),
        ..ProviderConfig::custom(name, base_url.value.clone())
    };
    Ok(Provider {
        config,
        kind,
        base_url,
        key,
    })
}

fn base_url(
    name: &str,
    kind: ProviderKind,
    written: Option<String>,
    environment: &Environment<'_>,
    file: Option<&Path>,
) -> Result<Setting<String>, Failure> {
    let variable = format!("{}_BASE_URL", shout(name));
    if let Some(value) = environment(&variable) {
        let source = Source::Environment(variable);
        return Ok(Setting { value, source });
    }
    let source = file.map_or(Source::Default, |file| Source::File(file.to_owned()));
    if let Some(value) = written {
        return Ok(Setting { value, source });
    }
    match preset(kind) {
        Some(preset) => Ok(Setting {
            value: preset.base_url().to_owned(),
            source: Source::Default,
        }),
        None => Err(Failure::usage(format!("the provider {name} has no baseUrl"))
            .hint(format!("add baseUrl to [providers.{name}], or set {variable}"))),
    }
}

fn usual_kind(name: &str) -> Option<ProviderKind> {
    let preset = Preset::ALL.into_iter().find(|preset| preset.name() == name)?;
    Some(match preset {
        Preset::OpenAi => ProviderKind::OpenAi,
        Preset::OpenRouter => ProviderKind::OpenRouter,
        Preset::Vllm => ProviderKind::Vllm,
        Preset::Ollama => ProviderKind::Ollama,
    })
}

const fn preset(kind: ProviderKind) -> Option<Preset> {
    match kind {
        ProviderKind::OpenAi => Some(Preset::OpenAi),
        ProviderKind::OpenRouter => Some(Preset::OpenRouter),
        ProviderKind::Vllm => Some(Preset::Vllm),
        ProviderKind::Ollama => Some(Preset::Ollama),
        ProviderKind::Compatible => None,
    }
}

const fn dialect(kind: ProviderKind) -> Dialect {
    match preset(kind) {
        Some(preset) => preset.dialect(),
        None => Dialect::COMPATIBLE,
    }
}

/// The name as variables spell it.
fn shout(name: &str) -> String {
    let spelt = name.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    });
    spelt.collect()
}
