//! The registry: from `provider/model` to a model that can be called.

use crate::{
    HttpClient, ProviderConfig, ProviderConfigError,
    provider::{
        endpoint::{Endpoint, is_provider_name},
        openai_chat::{ChatCompletionsModel, is_model_name},
    },
};
use portolan_core::{model::Model, time::Clock};
use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

/// A model's full name, `provider/model`. Only the first slash separates: `openrouter/openai/gpt-4.1` is the model
/// `openai/gpt-4.1` of the provider `openrouter`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelName {
    provider: String,
    model: String,
}

/// A model's name that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a model as provider/model, such as openai/gpt-4.1-mini, not {0:?}")]
pub struct ModelNameError(pub String);

impl ModelName {
    /// The provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The model as the provider names it.
    pub fn model(&self) -> &str {
        &self.model
    }
}

impl FromStr for ModelName {
    type Err = ModelNameError;

    fn from_str(text: &str) -> Result<Self, ModelNameError> {
        match text.split_once('/') {
            Some((provider, model)) if is_provider_name(provider) && is_model_name(model) => Ok(Self {
                provider: provider.to_owned(),
                model: model.to_owned(),
            }),
            _ => Err(ModelNameError(text.to_owned())),
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// Why a name does not lead to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveModelError {
    /// It is no name.
    #[error(transparent)]
    Name(#[from] ModelNameError),
    /// Its provider is not configured.
    #[error("there is no provider {provider:?}; configured: {}", list(.known))]
    UnknownProvider {
        /// The provider that was asked for.
        provider: String,
        /// The providers that there are.
        known: Vec<String>,
    },
}

fn list(known: &[String]) -> String {
    if known.is_empty() {
        return "none".to_owned();
    }
    known.join(", ")
}

/// The configured providers.
#[derive(Clone)]
pub struct Models {
    http: HttpClient,
    clock: Arc<dyn Clock>,
    providers: BTreeMap<String, Arc<Endpoint>>,
}

impl Models {
    /// A registry without providers. The clock is asked only for a `Retry-After` date that comes without a `Date`.
    pub const fn new(http: HttpClient, clock: Arc<dyn Clock>) -> Self {
        Self {
            http,
            clock,
            providers: BTreeMap::new(),
        }
    }

    /// Adds a provider, or puts it in the place of the one with its name.
    pub fn add(&mut self, config: &ProviderConfig) -> Result<(), ProviderConfigError> {
        let endpoint = Endpoint::new(&self.http, config)?;
        self.providers
            .insert(endpoint.provider.clone(), Arc::new(endpoint));
        Ok(())
    }

    /// The names of the providers, sorted.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// The model of that name. Whether the provider has it is found out by the first call.
    pub fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, ResolveModelError> {
        let name: ModelName = name.parse()?;
        let Some(endpoint) = self.providers.get(&name.provider) else {
            return Err(ResolveModelError::UnknownProvider {
                provider: name.provider,
                known: self.providers.keys().cloned().collect(),
            });
        };
        let (endpoint, clock) = (Arc::clone(endpoint), Arc::clone(&self.clock));
        Ok(Arc::new(ChatCompletionsModel::at(endpoint, clock, name.model)))
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models")
            .field("providers", &self.providers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpOptions, Preset};
    use portolan_core::{Fut, time::Timestamp};

    #[derive(Debug)]
    struct NoClock;

    impl Clock for NoClock {
        fn now(&self) -> Timestamp {
            Timestamp::EPOCH
        }

        fn monotonic_us(&self) -> u64 {
            0
        }

        fn sleep_ms(&self, _ms: u64) -> Fut<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    fn models() -> Models {
        let http = HttpClient::new(HttpOptions::default()).expect("a client");
        let mut models = Models::new(http, Arc::new(NoClock));
        for preset in Preset::ALL {
            models
                .add(&ProviderConfig::preset(preset))
                .expect("a preset is a provider");
        }
        models
    }

    #[test]
    fn the_first_slash_separates_the_provider() {
        let name: ModelName = "openrouter/openai/gpt-4.1".parse().expect("a name");
        assert_eq!((name.provider(), name.model()), ("openrouter", "openai/gpt-4.1"));
        assert_eq!(name.to_string(), "openrouter/openai/gpt-4.1");
        for bad in ["", "gpt-4.1", "/gpt", "openai/", "Open AI/x", "openai/a\nb"] {
            assert_eq!(bad.parse::<ModelName>(), Err(ModelNameError(bad.into())));
        }
    }

    #[test]
    fn configured_providers_resolve_and_others_are_told_which_there_are() {
        let models = models();
        assert!(models.resolve("ollama/qwen3:8b").is_ok());
        let error = models
            .resolve("opnai/gpt-4.1")
            .err()
            .expect("an unknown provider");
        assert_eq!(
            error.to_string(),
            "there is no provider \"opnai\"; configured: ollama, openai, openrouter, vllm"
        );
        assert!(matches!(
            models.resolve("gpt-4.1"),
            Err(ResolveModelError::Name(_))
        ));
    }
}
