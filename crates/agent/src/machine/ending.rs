//! The end of an execution: its outcome is known, then its evidence, then its terminal event.

use super::{state::State, states::Step};
use portolan_core::{
    artifact::Artifact,
    call::Turn,
    failure::{FailureKind, RunFailure},
    limits::LimitKind,
    time::Timestamp,
    trace::{TraceEvent, TraceKind},
    usage::LoopUsage,
};
use serde_json::Value;

/// How an execution is about to end.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// With a value that satisfies the schema.
    Succeeded(Value),
    /// Without one.
    Failed {
        /// Why.
        failure: RunFailure,
        /// A valid result that the last boundary discarded.
        discarded: Option<Value>,
    },
}

/// The outcome is known; the changed files have to be collected.
#[derive(Debug)]
#[must_use]
pub struct NeedEvidence {
    pub(super) state: Box<State>,
    pub(super) ending: Ending,
}

impl NeedEvidence {
    pub(super) fn failed(state: Box<State>, failure: RunFailure, discarded: Option<Value>) -> Step {
        let ending = Ending::Failed { failure, discarded };
        Step::Evidence(Self { state, ending })
    }

    /// How the execution is about to end.
    pub const fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Says which files changed, or why nobody knows.
    pub fn artifacts(mut self, found: Result<Vec<Artifact>, String>, at: Timestamp) -> Done {
        let (artifacts, unknown) = match found {
            Ok(artifacts) => (artifacts, None),
            Err(error) => {
                let kind = TraceKind::ArtifactsUnknown { error: error.clone() };
                self.state.record(at, kind);
                (Vec::new(), Some(error))
            }
        };
        for artifact in &artifacts {
            let kind = TraceKind::Artifact {
                operation: artifact.operation,
                path: artifact.path.clone(),
            };
            self.state.record(at, kind);
        }
        self.state.record(at, terminal_event(&self.ending));
        Done {
            state: self.state,
            ending: self.ending,
            artifacts,
            artifacts_unknown: unknown,
        }
    }
}

fn terminal_event(ending: &Ending) -> TraceKind {
    let failure = match ending {
        Ending::Succeeded(_) => return TraceKind::ExecutionCompleted,
        Ending::Failed { failure, .. } => failure,
    };
    let at = failure.boundary.zip(failure.ordinal);
    match (failure.kind, failure.limit, at) {
        (FailureKind::Cancelled, _, Some((boundary, ordinal))) => {
            TraceKind::ExecutionCancelled { boundary, ordinal }
        }
        (FailureKind::LimitExhausted | FailureKind::ResultContract, Some(limit), at) => {
            TraceKind::ExecutionLimitExhausted {
                limit,
                at: at.filter(|_| limit == LimitKind::WallTime),
            }
        }
        (
            FailureKind::Cancelled
            | FailureKind::LimitExhausted
            | FailureKind::ResultContract
            | FailureKind::Configuration
            | FailureKind::Provider
            | FailureKind::ToolUnavailable
            | FailureKind::BudgetExhausted
            | FailureKind::ReplayDiverged
            | FailureKind::Quarantined
            | FailureKind::Internal,
            _,
            _,
        ) => TraceKind::ExecutionFailed {
            error: failure.message.clone(),
        },
    }
}

/// An execution that has ended.
#[derive(Debug)]
#[must_use]
pub struct Done {
    pub(super) state: Box<State>,
    ending: Ending,
    artifacts: Vec<Artifact>,
    artifacts_unknown: Option<String>,
}

/// What is left of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// The value, or why there is none.
    pub outcome: Result<Value, RunFailure>,
    /// A valid result that the last boundary discarded.
    pub discarded: Option<Value>,
    /// The changed files, ordered by path.
    pub artifacts: Vec<Artifact>,
    /// Why the changed files are not known, if they are not.
    pub artifacts_unknown: Option<String>,
    /// What happened.
    pub trace: Vec<TraceEvent>,
    /// What was counted.
    pub usage: LoopUsage,
    /// What was asked and answered.
    pub history: Vec<Turn>,
}

impl Done {
    /// The value, or why there is none.
    pub const fn outcome(&self) -> Result<&Value, &RunFailure> {
        match &self.ending {
            Ending::Succeeded(value) => Ok(value),
            Ending::Failed { failure, .. } => Err(failure),
        }
    }

    /// A valid result that the last boundary discarded.
    pub const fn discarded(&self) -> Option<&Value> {
        match &self.ending {
            Ending::Succeeded(_) => None,
            Ending::Failed { discarded, .. } => discarded.as_ref(),
        }
    }

    /// The changed files, ordered by path.
    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// Why the changed files are not known, if they are not.
    pub fn artifacts_unknown(&self) -> Option<&str> {
        self.artifacts_unknown.as_deref()
    }

    /// Takes the execution apart.
    pub fn into_parts(self) -> Parts {
        let (outcome, discarded) = match self.ending {
            Ending::Succeeded(value) => (Ok(value), None),
            Ending::Failed { failure, discarded } => (Err(failure), discarded),
        };
        let State {
            mut history,
            turn,
            trace,
            usage,
            ..
        } = *self.state;
        if !turn.exchanges.is_empty() {
            // The turn in which the execution was stopped is evidence too.
            history.push(turn);
        }
        Parts {
            outcome,
            discarded,
            artifacts: self.artifacts,
            artifacts_unknown: self.artifacts_unknown,
            trace,
            usage,
            history,
        }
    }
}
