//! The port to a tool.

use crate::{Fut, cancel::CancelToken, ids::IdempotencyKey, workspace::Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a model is told about a tool. It is read once, at configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// The name, unique in an execution.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

/// What may happen when nobody knows whether an invocation ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// It only looks: run it again.
    Pure,
    /// A repetition with the same key leaves the same state: run it again with that key.
    Idempotent,
    /// It must not run twice: ask whoever ran it, and otherwise tell the model that the outcome is unknown.
    Once,
}

/// One invocation.
#[derive(Debug, Clone, Copy)]
pub struct ToolInvocation<'a> {
    /// The provider's id of the call.
    pub call_id: &'a str,
    /// The arguments, strictly parsed.
    pub arguments: &'a Value,
    /// The key of the attempt; absent in embedded executions.
    pub key: Option<&'a IdempotencyKey>,
    /// The workspace of the execution, if it has one.
    pub workspace: Option<&'a dyn Workspace>,
    /// Set when the execution is to stop. A tool that can stop early should.
    pub cancel: &'a CancelToken,
}

/// Why an invocation has no output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "status", content = "error")]
pub enum ToolError {
    /// A policy forbids it. The model is told; the invocation counts.
    #[error("{0}")]
    Denied(String),
    /// It ran and failed.
    #[error("{0}")]
    Failed(String),
    /// It could not be run where the agent demands it to run. Never a success.
    #[error("{0}")]
    Unavailable(String),
    /// It was started and nobody knows how it ended.
    #[error("{0}")]
    Unknown(String),
}

/// A tool.
pub trait Tool: Send + Sync {
    /// What the model is told. Read once per execution.
    fn spec(&self) -> ToolSpec;

    /// How an interrupted invocation with these arguments is treated. Whatever does not say otherwise must not run twice.
    fn class(&self, _arguments: &Value) -> ToolClass {
        ToolClass::Once
    }

    /// Runs the tool. Dropping the future abandons it: implementations stop what they started.
    fn call<'a>(&'a self, invocation: ToolInvocation<'a>) -> Fut<'a, Result<Value, ToolError>>;
}
