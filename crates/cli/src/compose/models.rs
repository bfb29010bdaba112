//! Models by name, out of the configured providers.

use super::ComposeError;
use crate::config::{Config, providers::is_unsupported};
use portolan_core::{model::Model, time::Clock};
use portolan_engine::{ModelSource, UnknownModel};
use portolan_router::{HttpClient, HttpOptions, Models, Preset, ResolveModelError};
use std::sync::Arc;

/// Sets up every configured provider.
pub(crate) fn registry(config: &Config, clock: Arc<dyn Clock>) -> Result<Models, ComposeError> {
    let http = HttpClient::new(HttpOptions {
        policy: config.provider_policy(),
        ..HttpOptions::default()
    })?;
    let mut models = Models::new(http, clock);
    for provider in &config.providers {
        models.add(&provider.config)?;
    }
    Ok(models)
}

/// The registry as the engine asks for models. What it does not have, it says how to get.
#[derive(Debug)]
pub(crate) struct RouterModels(Models);

impl RouterModels {
    pub(crate) const fn new(models: Models) -> Self {
        Self(models)
    }
}

impl ModelSource for RouterModels {
    fn model(&self, name: &str) -> Result<Arc<dyn Model>, UnknownModel> {
        self.0
            .resolve(name)
            .map_err(|error| UnknownModel(explain(&error)))
    }
}

fn explain(error: &ResolveModelError) -> String {
    let ResolveModelError::UnknownProvider { provider, .. } = error else {
        return error.to_string();
    };
    if is_unsupported(provider) {
        return format!("the provider {provider} is not supported yet; openrouter/… reaches its models");
    }
    let preset = Preset::ALL.into_iter().find(|preset| preset.name() == provider);
    let shouted = provider.to_ascii_uppercase();
    match preset {
        Some(Preset::OpenAi | Preset::OpenRouter) => {
            format!("{error}; start the server with {shouted}_API_KEY to have {provider}")
        }
        Some(Preset::Vllm | Preset::Ollama) => {
            format!("{error}; start the server with {shouted}_BASE_URL to have {provider}")
        }
        None => format!("{error}; add [providers.{provider}] to the configuration to have it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;
    use portolan_engine::ambient::SystemClock;

    #[test]
    fn a_provider_that_is_not_there_says_how_to_get_it() {
        let config = Config::load(&Flags::default(), &|_| None).expect("defaults");
        let models = RouterModels::new(registry(&config, Arc::new(SystemClock::new())).expect("set up"));
        assert!(models.model("ollama/qwen3:8b").is_ok());
        for (name, advice) in [
            ("openai/gpt-4.1", "OPENAI_API_KEY"),
            ("anthropic/claude", "not supported yet"),
            ("mine/x", "[providers.mine]"),
            ("gpt-4.1", "provider/model"),
        ] {
            let error = models.model(name).err().expect("unknown");
            assert!(error.to_string().contains(advice), "{name}: {error}");
        }
    }
}
