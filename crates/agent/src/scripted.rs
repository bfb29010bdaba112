//! A model that follows a script: for tests of programs that embed the loop.

use portolan_core::{
    Fut,
    call::{Action, Arguments, Exchange, FinalResult, ToolCall},
    ids::{ExecutionId, IdempotencyKey},
    model::{Model, ModelError, ModelFailure, ModelReply, ModelRequest},
    tool::ToolSpec,
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What a [`Scripted::With`] step calls.
pub type Answer = Box<dyn FnOnce(ModelRequest<'_>) -> Result<ModelReply, ModelError> + Send>;

/// One step of a script.
#[expect(
    clippy::large_enum_variant,
    reason = "a script has a few steps, and most of them are replies"
)]
pub enum Scripted {
    /// Answers.
    Reply(ModelReply),
    /// Fails.
    Error(ModelError),
    /// Panics with a message.
    Panic(String),
    /// Looks at the request and decides.
    With(Answer),
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(reply) => f.debug_tuple("Reply").field(reply).finish(),
            Self::Error(error) => f.debug_tuple("Error").field(error).finish(),
            Self::Panic(message) => f.debug_tuple("Panic").field(message).finish(),
            Self::With(_) => f.write_str("With"),
        }
    }
}

impl From<Action> for Scripted {
    fn from(action: Action) -> Self {
        Self::Reply(ModelReply::new(action))
    }
}

/// A call of a tool.
pub fn call(id: &str, name: &str, arguments: impl Serialize) -> Scripted {
    Action::Call(tool_call(id, name, arguments)).into()
}

/// Several calls at once.
pub fn batch(calls: impl IntoIterator<Item = ToolCall>) -> Scripted {
    Action::Batch(calls.into_iter().collect()).into()
}

/// One call of a [`batch`].
pub fn tool_call(id: &str, name: &str, arguments: impl Serialize) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: encoded(arguments),
    }
}

/// A submitted result.
pub fn result(value: impl Serialize) -> Scripted {
    let value = encoded(value);
    Action::Final(FinalResult { id: None, value }).into()
}

/// A failure for good.
pub fn error(message: &str) -> Scripted {
    Scripted::Error(ModelError::new(ModelFailure::Refused, message))
}

fn encoded(value: impl Serialize) -> Arguments {
    match serde_json::to_value(value) {
        Ok(value) => Arguments::Json(value),
        Err(error) => Arguments::Malformed {
            raw: String::new(),
            reason: error.to_string(),
        },
    }
}

/// What a model was asked.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are those of ModelRequest, documented there"
)]
pub struct RecordedRequest {
    pub key: Option<IdempotencyKey>,
    pub execution_id: ExecutionId,
    pub task: String,
    pub context: Value,
    pub instructions: Vec<String>,
    pub tools: Vec<ToolSpec>,
    pub result_schema: Value,
    pub exchanges: Vec<Exchange>,
    pub max_output_tokens: Option<u32>,
}

impl RecordedRequest {
    /// Writes a request down.
    pub fn of(key: Option<&IdempotencyKey>, request: ModelRequest<'_>) -> Self {
        Self {
            key: key.cloned(),
            execution_id: request.execution_id,
            task: request.task.to_owned(),
            context: request.context.clone(),
            instructions: request.instructions.to_vec(),
            tools: request.tools.to_vec(),
            result_schema: request.result_schema.clone(),
            exchanges: request.exchanges().cloned().collect(),
            max_output_tokens: request.max_output_tokens,
        }
    }
}

/// A model that follows a script and writes down what it was asked. A request beyond the script fails for good.
#[derive(Debug, Default)]
pub struct ScriptedModel {
    script: Mutex<VecDeque<Scripted>>,
    requests: Mutex<Vec<RecordedRequest>>,
}

impl ScriptedModel {
    /// Takes a script.
    pub fn new(script: impl IntoIterator<Item = Scripted>) -> Self {
        Self {
            script: Mutex::new(script.into_iter().collect()),
            requests: Mutex::default(),
        }
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        locked(&self.requests).clone()
    }

    /// How many steps of the script are left.
    pub fn remaining(&self) -> usize {
        locked(&self.script).len()
    }
}

/// A script that panicked in one step goes on with the next.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Model for ScriptedModel {
    fn call<'a>(
        &'a self,
        key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            locked(&self.requests).push(RecordedRequest::of(key, request));
            let step = locked(&self.script).pop_front();
            match step {
                Some(Scripted::Reply(reply)) => Ok(reply),
                Some(Scripted::Error(error)) => Err(error),
                #[expect(clippy::panic, reason = "the script asks for a panic")]
                Some(Scripted::Panic(message)) => panic!("{message}"),
                Some(Scripted::With(answer)) => answer(request),
                None => Err(ModelError::new(ModelFailure::Refused, "the script has ended")),
            }
        })
    }
}
