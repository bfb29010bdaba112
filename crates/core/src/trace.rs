//! The dotted trace of the loop: the same in a unit test, in a script and on the server.

use crate::{artifact::Operation, limits::LimitKind, time::Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The places at which cancel and wall time are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// Before a model request.
    BeforeModel,
    /// After a provider call, also a failed one.
    AfterModel,
    /// Before each call of a batch, also one with an unknown name.
    BeforeTool,
    /// After each invocation.
    AfterTool,
    /// After a submitted result was validated, whatever came out.
    AfterResultValidation,
    /// When the model calls are used up.
    AfterLoop,
}

impl Boundary {
    /// The name in traces and events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeModel => "before_model",
            Self::AfterModel => "after_model",
            Self::BeforeTool => "before_tool",
            Self::AfterTool => "after_tool",
            Self::AfterResultValidation => "after_result_validation",
            Self::AfterLoop => "after_loop",
        }
    }
}

/// One thing that happened in the loop.
#[derive(Debug, Clone, PartialEq)]
pub enum TraceKind {
    /// The configuration is done.
    ExecutionStarted {
        /// The task.
        task: String,
    },
    /// A model is about to be asked, for the n-th time.
    ModelRequested {
        /// From 1.
        call: u32,
    },
    /// The provider failed.
    ModelFailed {
        /// Why.
        error: String,
    },
    /// A tool is about to run.
    ToolStarted {
        /// Its name.
        tool: String,
        /// The call.
        call_id: String,
    },
    /// A tool gave an output.
    ToolCompleted {
        /// Its name.
        tool: String,
        /// The call.
        call_id: String,
    },
    /// A call was denied: by a policy, or because the name is unknown.
    ToolDenied {
        /// Its name.
        tool: String,
        /// The call.
        call_id: String,
        /// Why.
        error: String,
    },
    /// A tool failed, was unavailable or ended in an unknown way.
    ToolFailed {
        /// Its name.
        tool: String,
        /// The call.
        call_id: String,
        /// Why.
        error: String,
    },
    /// A submitted result was refused.
    ResultRejected {
        /// The call that carried it.
        call_id: String,
        /// Every violation.
        error: String,
    },
    /// A submitted result was accepted.
    ResultProduced,
    /// A file differs from the start.
    Artifact {
        /// How.
        operation: Operation,
        /// Where.
        path: String,
    },
    /// The changed files could not be determined.
    ArtifactsUnknown {
        /// Why.
        error: String,
    },
    /// The execution ended with a value.
    ExecutionCompleted,
    /// The execution was cancelled at a boundary.
    ExecutionCancelled {
        /// Where.
        boundary: Boundary,
        /// The number of that check within the execution, from 1.
        ordinal: u64,
    },
    /// A limit ended the execution.
    ExecutionLimitExhausted {
        /// Which.
        limit: LimitKind,
        /// Where, for wall time.
        at: Option<(Boundary, u64)>,
    },
    /// A provider or an unforeseen failure ended the execution.
    ExecutionFailed {
        /// Why.
        error: String,
    },
}

impl TraceKind {
    /// The dotted name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ExecutionStarted { .. } => "execution.started",
            Self::ModelRequested { .. } => "model.requested",
            Self::ModelFailed { .. } => "model.failed",
            Self::ToolStarted { .. } => "tool.started",
            Self::ToolCompleted { .. } => "tool.completed",
            Self::ToolDenied { .. } => "tool.denied",
            Self::ToolFailed { .. } => "tool.failed",
            Self::ResultRejected { .. } => "result.rejected",
            Self::ResultProduced => "result.produced",
            Self::Artifact {
                operation: Operation::Created,
                ..
            } => "artifact.created",
            Self::Artifact {
                operation: Operation::Modified,
                ..
            } => "artifact.modified",
            Self::Artifact {
                operation: Operation::Deleted,
                ..
            } => "artifact.deleted",
            Self::ArtifactsUnknown { .. } => "artifacts.unknown",
            Self::ExecutionCompleted => "execution.completed",
            Self::ExecutionCancelled { .. } => "execution.cancelled",
            Self::ExecutionLimitExhausted { .. } => "execution.limit_exhausted",
            Self::ExecutionFailed { .. } => "execution.failed",
        }
    }

    /// The data of the event, as the API shows it.
    pub fn data(&self) -> Value {
        match self {
            Self::ExecutionStarted { task } => json!({ "task": task }),
            Self::ModelRequested { call } => json!({ "call": call }),
            Self::ModelFailed { error }
            | Self::ArtifactsUnknown { error }
            | Self::ExecutionFailed { error } => {
                json!({ "error": error })
            }
            Self::ToolStarted { tool, call_id } | Self::ToolCompleted { tool, call_id } => {
                json!({ "tool": tool, "call_id": call_id })
            }
            Self::ToolDenied { tool, call_id, error } | Self::ToolFailed { tool, call_id, error } => {
                json!({ "tool": tool, "call_id": call_id, "error": error })
            }
            Self::ResultRejected { call_id, error } => json!({ "call_id": call_id, "error": error }),
            Self::ResultProduced | Self::ExecutionCompleted => json!({}),
            Self::Artifact { path, .. } => json!({ "path": path }),
            Self::ExecutionCancelled { boundary, ordinal } => {
                json!({ "boundary": boundary.name(), "ordinal": ordinal })
            }
            Self::ExecutionLimitExhausted {
                limit,
                at: Some((boundary, ordinal)),
            } => {
                json!({ "limit": limit.trace_name(), "boundary": boundary.name(), "ordinal": ordinal })
            }
            Self::ExecutionLimitExhausted { limit, at: None } => json!({ "limit": limit.trace_name() }),
        }
    }
}

/// One event of the trace, stamped by the driver.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceEvent {
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: TraceKind,
}

impl Serialize for TraceEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut event = serializer.serialize_struct("TraceEvent", 3)?;
        event.serialize_field("kind", self.kind.name())?;
        event.serialize_field("at", &self.at)?;
        event.serialize_field("data", &self.kind.data())?;
        event.end()
    }
}
