//! The configuration file, as it is typed.

use portolan_router::{PriceEntry, ToolChoice};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

/// `portolan.toml`. Every key is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileConfig {
    pub(super) data: Option<PathBuf>,
    pub(super) listen: Option<String>,
    pub(super) allow_host_shell: Option<bool>,
    pub(super) allow_private_providers: Option<bool>,
    pub(super) insecure_listen: Option<bool>,
    pub(super) max_concurrent_runs: Option<usize>,
    pub(super) allow_unsafe_database: Option<bool>,
    pub(super) lease_ms: Option<u64>,
    pub(super) sweep_ms: Option<u64>,
    pub(super) log: Option<String>,
    pub(super) log_format: Option<LogFormat>,
    #[serde(default)]
    pub(super) providers: BTreeMap<String, FileProvider>,
    #[serde(default)]
    pub(super) prices: BTreeMap<String, PriceEntry>,
}

impl FileConfig {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// One provider, as it is typed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileProvider {
    pub(super) kind: Option<ProviderKind>,
    pub(super) base_url: Option<String>,
    pub(super) api_key_env: Option<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) honours_idempotency_keys: Option<bool>,
    pub(super) tool_choice: Option<TypedToolChoice>,
    pub(super) strict_result: Option<bool>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
}

/// Which dialect of the protocol a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// OpenAI itself.
    OpenAi,
    /// OpenRouter.
    OpenRouter,
    /// A vLLM server.
    Vllm,
    /// Ollama.
    Ollama,
    /// Anything that speaks chat completions.
    Compatible,
}

/// Whether a model must answer with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TypedToolChoice {
    /// It must.
    Required,
    /// It may; for models that refuse `required`.
    Auto,
}

impl From<TypedToolChoice> for ToolChoice {
    fn from(typed: TypedToolChoice) -> Self {
        match typed {
            TypedToolChoice::Required => Self::Required,
            TypedToolChoice::Auto => Self::Auto,
        }
    }
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A word that is none of the forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a log format is text or json")]
pub struct LogFormatError;

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<Self, LogFormatError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(LogFormatError),
        }
    }
}
