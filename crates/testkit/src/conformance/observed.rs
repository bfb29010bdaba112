//! What a backend says about a run, in terms that do not depend on how it ran.

use super::scenario::FileContent;
use portolan_agent::{Execution, ExecutionError, scripted::RecordedRequest};
use portolan_core::{
    artifact::Artifact,
    failure::{FailureKind, RunFailure},
    ids::ExecutionId,
    trace::TraceEvent,
    usage::LoopUsage,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With a value.
    Succeeded(Value),
    /// Without one.
    Failed(RunFailure),
}

/// What was observed.
#[derive(Debug, Clone)]
pub struct Observed {
    /// In which way it was run, if there are several.
    pub variant: Option<String>,
    /// Whether only the outcome is to be compared.
    pub only_outcome: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// The execution, if one was begun.
    pub execution_id: Option<ExecutionId>,
    /// What was counted.
    pub usage: LoopUsage,
    /// The trace: dotted kinds with their data.
    pub trace: Vec<(String, Value)>,
    /// The changed files.
    pub artifacts: Vec<Artifact>,
    /// Why the changed files are not known, if they are not.
    pub artifacts_unknown: Option<String>,
    /// What the model was asked, in order.
    pub requests: Vec<RecordedRequest>,
    /// The files of the workspace at the end, if there is one.
    pub workspace_after: Option<BTreeMap<String, FileContent>>,
    /// The files beside the workspace at the end.
    pub outside_after: BTreeMap<String, FileContent>,
}

impl Observed {
    /// A run that could not be configured.
    pub fn unconfigured(message: impl Into<String>) -> Self {
        Self {
            variant: None,
            only_outcome: false,
            outcome: Outcome::Failed(RunFailure::new(FailureKind::Configuration, message)),
            execution_id: None,
            usage: LoopUsage::default(),
            trace: Vec::new(),
            artifacts: Vec::new(),
            artifacts_unknown: None,
            requests: Vec::new(),
            workspace_after: None,
            outside_after: BTreeMap::new(),
        }
    }

    /// What an embedded execution says about itself; requests and files are added by the stage.
    pub fn of_execution(ended: Result<Execution<Value>, ExecutionError>) -> Self {
        match ended {
            Ok(execution) => Self {
                outcome: Outcome::Succeeded(execution.value),
                execution_id: Some(execution.execution_id),
                usage: execution.usage,
                trace: flat(&execution.trace),
                artifacts: execution.artifacts,
                artifacts_unknown: execution.artifacts_unknown,
                ..Self::unconfigured("")
            },
            Err(ExecutionError { failure, evidence }) => Self {
                outcome: Outcome::Failed(failure),
                execution_id: Some(evidence.execution_id),
                usage: evidence.usage,
                trace: flat(&evidence.trace),
                artifacts: evidence.artifacts,
                artifacts_unknown: evidence.artifacts_unknown,
                ..Self::unconfigured("")
            },
        }
    }
}

fn flat(trace: &[TraceEvent]) -> Vec<(String, Value)> {
    let events = trace
        .iter()
        .map(|event| (event.kind.name().to_owned(), event.kind.data()));
    events.collect()
}

/// The suite's name of a failure.
pub(super) const fn error_kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Configuration => "configuration",
        FailureKind::Provider => "provider",
        FailureKind::LimitExhausted => "model_limit",
        FailureKind::ResultContract => "result_contract",
        FailureKind::Cancelled => "cancelled",
        FailureKind::ToolUnavailable => "tool_unavailable",
        FailureKind::BudgetExhausted => "budget_exhausted",
        FailureKind::ReplayDiverged => "replay_diverged",
        FailureKind::Quarantined => "quarantined",
        FailureKind::Internal => "internal",
    }
}
