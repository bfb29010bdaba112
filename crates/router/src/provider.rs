//! What a provider is: where it lives, what it is paid with, and how its dialect differs.

pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod openai_chat;

use crate::{BaseUrlError, Secret};

/// How a known provider is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// OpenAI itself.
    OpenAi,
    /// OpenRouter.
    OpenRouter,
    /// A vLLM server, on this host unless told otherwise.
    Vllm,
    /// Ollama, on this host unless told otherwise.
    Ollama,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::OpenRouter, Self::Vllm, Self::Ollama];

    /// The name under which the provider is registered unless told otherwise.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenRouter => "openrouter",
            Self::Vllm => "vllm",
            Self::Ollama => "ollama",
        }
    }

    /// The base URL that the vendor documents.
    pub const fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::OpenRouter => "https://openrouter.ai/api/v1",
            Self::Vllm => "http://127.0.0.1:8000/v1",
            Self::Ollama => "http://127.0.0.1:11434/v1",
        }
    }

    /// The dialect that the vendor documents.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::OpenAi => Dialect {
                output_cap: OutputCap::MaxCompletionTokens,
                ..Dialect::COMPATIBLE
            },
            Self::OpenRouter => Dialect::COMPATIBLE,
            // Both decode the arguments of earlier calls into objects and refuse the request when they cannot.
            Self::Vllm | Self::Ollama => Dialect {
                replayed_arguments: ReplayedArguments::ObjectsOnly,
                ..Dialect::COMPATIBLE
            },
        }
    }
}

/// The field that bounds the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputCap {
    /// `max_completion_tokens`, which counts reasoning too.
    MaxCompletionTokens,
    /// `max_tokens`, which every compatible server knows.
    MaxTokens,
}

/// Whether a model must answer with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolChoice {
    /// `required`: the result comes as a call of the result tool.
    Required,
    /// `auto`, for models that refuse `required`.
    Auto,
}

/// How the arguments of earlier calls are sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReplayedArguments {
    /// As the model wrote them, byte for byte, also when they are no JSON.
    Verbatim,
    /// The same, but what is no JSON object is put into one, as `{"unparsed": "…"}`.
    ObjectsOnly,
}

/// Where servers that call themselves compatible differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// The field that bounds the output.
    pub output_cap: OutputCap,
    /// Whether a call is demanded.
    pub tool_choice: ToolChoice,
    /// Whether the result tool's schema may be strict.
    pub strict_result: bool,
    /// How earlier arguments are sent back.
    pub replayed_arguments: ReplayedArguments,
}

impl Dialect {
    /// What most compatible servers understand.
    pub const COMPATIBLE: Self = Self {
        output_cap: OutputCap::MaxTokens,
        tool_choice: ToolChoice::Required,
        strict_result: true,
        replayed_arguments: ReplayedArguments::Verbatim,
    };
}

/// A provider as it is configured.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The name before the slash in `provider/model`.
    pub name: String,
    /// Where its API starts, `/chat/completions` not included.
    pub base_url: String,
    /// The key, sent as a bearer token.
    pub api_key: Option<Secret>,
    /// The time for one call, from connecting to the last byte.
    pub timeout_ms: u64,
    /// Headers for every call. Their values are treated like keys.
    pub headers: Vec<(String, Secret)>,
    /// How it differs from others.
    pub dialect: Dialect,
    /// Whether it is known to answer a repeated `Idempotency-Key` with the first answer and to charge once. No vendor of
    /// a preset documents that, so it must be claimed by whoever knows.
    pub honours_idempotency_keys: bool,
}

impl ProviderConfig {
    /// Five minutes: a completion is not streamed, and a long answer takes its time.
    pub const DEFAULT_TIMEOUT_MS: u64 = 300_000;

    /// A provider that speaks the protocol at a base URL of its own.
    pub fn custom(name: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            base_url: base_url.into(),
            api_key: None,
            timeout_ms: Self::DEFAULT_TIMEOUT_MS,
            headers: Vec::new(),
            dialect: Dialect::COMPATIBLE,
            honours_idempotency_keys: false,
        }
    }

    /// A known provider under its usual name.
    pub fn preset(preset: Preset) -> Self {
        Self {
            dialect: preset.dialect(),
            ..Self::custom(preset.name(), preset.base_url())
        }
    }

    /// The same with a key.
    #[must_use]
    pub fn with_api_key(mut self, key: impl Into<Secret>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// The same elsewhere.
    #[must_use]
    pub fn with_base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }
}

/// Why a provider's configuration is refused. It never repeats a key or a header's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderConfigError {
    /// The name would not fit into `provider/model`.
    #[error("a provider's name has 1 to 64 characters out of a-z, 0-9, - and _, not {0:?}")]
    Name(String),
    /// The base URL is refused.
    #[error("the base URL of the provider {provider} is refused")]
    BaseUrl {
        /// The provider.
        provider: String,
        /// Why.
        #[source]
        source: BaseUrlError,
    },
    /// The key cannot be sent.
    #[error(
        "the API key of the provider {0} is empty or has characters that no header can carry, such as a line end"
    )]
    ApiKey(String),
    /// A header cannot be sent, or is one that the adapter sets.
    #[error("the header {header:?} of the provider {provider} cannot be set")]
    Header {
        /// The provider.
        provider: String,
        /// The header's name.
        header: String,
    },
    /// A call must be able to end and to succeed.
    #[error("the timeout of the provider {0} must be at least 1 ms")]
    Timeout(String),
    /// The model's name cannot be sent.
    #[error("a model's name has 1 to 256 characters and no control characters, not {0:?}")]
    Model(String),
}
