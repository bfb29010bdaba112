//! How an execution ended, with its evidence.

use crate::machine::Parts;
use portolan_core::{
    artifact::Artifact,
    failure::{FailureKind, RunFailure},
    ids::ExecutionId,
    trace::TraceEvent,
    usage::LoopUsage,
};
use serde_json::Value;

/// An execution that ended with a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution<T> {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The value.
    pub value: T,
    /// The files that it changed, ordered by path.
    pub artifacts: Vec<Artifact>,
    /// Why the changed files are not known, if they are not.
    pub artifacts_unknown: Option<String>,
    /// What happened.
    pub trace: Vec<TraceEvent>,
    /// What was counted.
    pub usage: LoopUsage,
}

/// An execution that ended without a value. Whatever happened until then is here.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", failure.message)]
pub struct ExecutionError {
    /// Why.
    pub failure: RunFailure,
    /// What happened until then.
    pub evidence: Box<Evidence>,
}

/// What is known about an execution that ended without a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Its id, also when it could not be configured.
    pub execution_id: ExecutionId,
    /// What happened; empty when it could not be configured.
    pub trace: Vec<TraceEvent>,
    /// The files that it changed, ordered by path.
    pub artifacts: Vec<Artifact>,
    /// Why the changed files are not known, if they are not.
    pub artifacts_unknown: Option<String>,
    /// What was counted.
    pub usage: LoopUsage,
    /// A valid result that the last boundary discarded.
    pub discarded: Option<Value>,
}

impl ExecutionError {
    /// The kind of the failure.
    pub const fn kind(&self) -> FailureKind {
        self.failure.kind
    }

    /// An execution that could not be configured. The message is the whole chain of causes, for a person.
    pub(crate) fn configuration(execution_id: ExecutionId, cause: &dyn std::error::Error) -> Self {
        let mut message = cause.to_string();
        let mut source = cause.source();
        while let Some(deeper) = source {
            message.push_str(": ");
            message.push_str(&deeper.to_string());
            source = deeper.source();
        }
        Self {
            failure: RunFailure::new(FailureKind::Configuration, message),
            evidence: Box::new(Evidence {
                execution_id,
                trace: Vec::new(),
                artifacts: Vec::new(),
                artifacts_unknown: None,
                usage: LoopUsage::default(),
                discarded: None,
            }),
        }
    }
}

impl Execution<Value> {
    /// Sorts a finished machine into one of the two.
    pub(crate) fn of(execution_id: ExecutionId, parts: Parts) -> Result<Self, ExecutionError> {
        match parts.outcome {
            Ok(value) => Ok(Self {
                execution_id,
                value,
                artifacts: parts.artifacts,
                artifacts_unknown: parts.artifacts_unknown,
                trace: parts.trace,
                usage: parts.usage,
            }),
            Err(failure) => Err(ExecutionError {
                failure,
                evidence: Box::new(Evidence {
                    execution_id,
                    trace: parts.trace,
                    artifacts: parts.artifacts,
                    artifacts_unknown: parts.artifacts_unknown,
                    usage: parts.usage,
                    discarded: parts.discarded,
                }),
            }),
        }
    }
}

impl Execution<Value> {
    /// Takes the success back; the value stays in the evidence.
    pub(crate) fn spoiled(self, failure: RunFailure) -> ExecutionError {
        ExecutionError {
            failure,
            evidence: Box::new(Evidence {
                execution_id: self.execution_id,
                trace: self.trace,
                artifacts: self.artifacts,
                artifacts_unknown: self.artifacts_unknown,
                usage: self.usage,
                discarded: Some(self.value),
            }),
        }
    }
}

impl<T> Execution<T> {
    /// Replaces the value by what it decodes to.
    pub(crate) fn with<U>(self, value: U) -> Execution<U> {
        Execution {
            execution_id: self.execution_id,
            value,
            artifacts: self.artifacts,
            artifacts_unknown: self.artifacts_unknown,
            trace: self.trace,
            usage: self.usage,
        }
    }
}
