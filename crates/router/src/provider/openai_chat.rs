//! Chat completions as OpenAI specified them and many servers copied them.
//!
//! The shapes follow OpenAI's API reference, "Chat Completions" (`platform.openai.com/docs/api-reference/chat`); where a
//! server differs, the difference is a field of [`Dialect`](crate::Dialect). Requests are not streamed.
//!
//! The result comes as a call of `final_result`, whose parameters are the result's schema made strict where that can be
//! done without losing a value (see [`schema`]). What strictness changed is undone before the value is handed on; whether
//! the value satisfies the original schema is judged by the loop, never here.

mod nulls;
mod request;
mod response;
mod schema;

use super::{ProviderConfig, ProviderConfigError, endpoint::Endpoint, failure};
use crate::HttpClient;
use portolan_core::{
    Fut,
    ids::IdempotencyKey,
    model::{Model, ModelError, ModelFailure, ModelReply, ModelRequest},
    time::Clock,
};
use schema::ResultForm;
use std::{fmt, sync::Arc};

/// A model behind an OpenAI-compatible chat completions endpoint.
///
/// It can be called inside a tokio runtime, and from any other executor, the blocking driver's thread included: see
/// [`HttpClient`]. It sends each request once; every repetition is its caller's decision.
#[derive(Clone)]
pub struct ChatCompletionsModel {
    endpoint: Arc<Endpoint>,
    model: String,
    clock: Arc<dyn Clock>,
}

impl ChatCompletionsModel {
    /// Checks the provider's configuration and names the model as the provider knows it. The clock is asked only when a
    /// provider gives a date to come back at without saying what time it has itself.
    pub fn new(
        http: &HttpClient,
        clock: Arc<dyn Clock>,
        config: &ProviderConfig,
        model: impl Into<String>,
    ) -> Result<Self, ProviderConfigError> {
        let model = model.into();
        if !is_model_name(&model) {
            return Err(ProviderConfigError::Model(model));
        }
        let endpoint = Arc::new(Endpoint::new(http, config)?);
        Ok(Self::at(endpoint, clock, model))
    }

    /// The same from parts that were checked before.
    pub(crate) const fn at(endpoint: Arc<Endpoint>, clock: Arc<dyn Clock>, model: String) -> Self {
        Self {
            endpoint,
            model,
            clock,
        }
    }

    async fn ask(
        &self,
        key: Option<&IdempotencyKey>,
        request: ModelRequest<'_>,
    ) -> Result<ModelReply, ModelError> {
        let endpoint = &*self.endpoint;
        let form = ResultForm::new(request.result_schema, endpoint.dialect.strict_result);
        let body = request::body(&self.model, endpoint.dialect, &form, &request).map_err(|error| {
            let what = format!(
                "provider {}: the request could not be written: {error}",
                endpoint.provider
            );
            ModelError::new(ModelFailure::NotSent, what)
        })?;
        let bytes = body.len();
        let outcome = endpoint.post(&["chat", "completions"], key, body).await;
        let reply = failure::success(endpoint, &*self.clock, outcome).and_then(|answer| {
            response::reply(&answer, &form).map_err(|what| failure::malformed(endpoint, &what))
        });
        let outcome = match &reply {
            Ok(_) => "answered",
            Err(error) => failure_name(error.failure),
        };
        tracing::debug!(
            provider = endpoint.provider,
            model = self.model,
            bytes,
            outcome,
            "model call"
        );
        reply
    }
}

pub(crate) fn is_model_name(name: &str) -> bool {
    (1..=256).contains(&name.len()) && !name.chars().any(char::is_control)
}

const fn failure_name(failure: ModelFailure) -> &'static str {
    match failure {
        ModelFailure::NotSent => "not_sent",
        ModelFailure::Refused => "refused",
        ModelFailure::Account => "account",
        ModelFailure::RateLimited => "rate_limited",
        ModelFailure::Overloaded => "overloaded",
        ModelFailure::Malformed => "malformed",
        ModelFailure::InDoubt => "in_doubt",
        ModelFailure::Panicked => "panicked",
    }
}

impl Model for ChatCompletionsModel {
    fn call<'a>(
        &'a self,
        key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.ask(key, request))
    }

    fn honours_idempotency_keys(&self) -> bool {
        self.endpoint.honours_idempotency_keys
    }
}

impl fmt::Debug for ChatCompletionsModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatCompletionsModel")
            .field("endpoint", &self.endpoint)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
