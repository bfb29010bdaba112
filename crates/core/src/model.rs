//! The port to a model.

use crate::{
    Fut,
    call::{Action, Exchange, Turn},
    ids::{ExecutionId, IdempotencyKey},
    tool::ToolSpec,
    usage::TokenUsage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything a model may know when it is asked. It borrows the history, so asking costs nothing that grows with it.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The task, unchanged in every request.
    pub task: &'a str,
    /// The context, unchanged in every request.
    pub context: &'a Value,
    /// The rendered instructions.
    pub instructions: &'a [String],
    /// The tools, in order, without the result tool.
    pub tools: &'a [ToolSpec],
    /// The JSON Schema of the result.
    pub result_schema: &'a Value,
    /// What was asked and answered so far.
    pub history: &'a [Turn],
    /// The cap on output tokens of this call, if there is one.
    pub max_output_tokens: Option<u32>,
}

impl<'a> ModelRequest<'a> {
    /// The answered calls so far, oldest first.
    pub fn exchanges(&self) -> impl Iterator<Item = &'a Exchange> {
        self.history.iter().flat_map(|turn| turn.exchanges.iter())
    }
}

/// A provider's usable answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelReply {
    /// What happens next.
    pub action: Action,
    /// Text that came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the provider wants back unchanged in the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Value>,
    /// The model that answered, as the provider names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the provider says it consumed. Absent: it did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// The provider's own id of the response, for support requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

impl ModelReply {
    /// A reply that is an action and nothing else.
    pub const fn new(action: Action) -> Self {
        Self {
            action,
            text: None,
            echo: None,
            model: None,
            usage: None,
            provider_id: None,
        }
    }
}

/// Why a model did not answer. What a failure says about the world decides what may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailure {
    /// Nothing left this process: the address did not resolve, the connection was refused, the request could not be built.
    NotSent,
    /// The provider refused the request for good (4xx).
    Refused,
    /// The provider refuses the account: key, credit, permission (401, 402, 403).
    Account,
    /// The provider asks to come back later (429).
    RateLimited,
    /// The provider failed and said so with a complete answer (500, 503, 529).
    Overloaded,
    /// A complete answer that is no answer: an error under 200, a wrong content type, an empty batch.
    Malformed,
    /// The request may have been executed and billed: 408, 502, 504, a timeout or a cut after sending.
    InDoubt,
    /// The adapter itself failed in an unforeseen way.
    Panicked,
}

impl ModelFailure {
    /// Whether the same step may be tried again under a new key.
    pub const fn is_definite_and_retryable(self) -> bool {
        match self {
            Self::NotSent | Self::RateLimited | Self::Overloaded | Self::Malformed => true,
            Self::Refused | Self::Account | Self::InDoubt | Self::Panicked => false,
        }
    }
}

/// A failed model call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What the failure says about the world.
    pub failure: ModelFailure,
    /// What happened, in words that an operator can use. It never holds a key.
    pub message: String,
    /// How long the provider asked to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl ModelError {
    /// A failure without a wish for a delay.
    pub fn new(failure: ModelFailure, message: impl Into<String>) -> Self {
        Self {
            failure,
            message: message.into(),
            retry_after_ms: None,
        }
    }
}

/// A model. Implementations do not retry and send the key, if there is one, with the request.
pub trait Model: Send + Sync {
    /// Asks for the next action. Dropping the future abandons the call.
    fn call<'a>(
        &'a self,
        key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>>;

    /// Whether the provider is known to answer a repeated key with the first answer and to charge it once.
    fn honours_idempotency_keys(&self) -> bool {
        false
    }
}
