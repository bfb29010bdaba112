//! Why a run did not succeed, in the form that the journal and the API carry.

use crate::{ids::StepId, limits::LimitKind, trace::Boundary};
use serde::{Deserialize, Serialize};

/// The kind of a failed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The configuration could not be built. No model was asked.
    Configuration,
    /// The provider failed for good.
    Provider,
    /// A limit was used up.
    LimitExhausted,
    /// No valid result within the retries.
    ResultContract,
    /// A tool could not be run where the agent demands it.
    ToolUnavailable,
    /// A budget was used up.
    BudgetExhausted,
    /// The journal and the machine disagree.
    ReplayDiverged,
    /// Re-driven too often, or the journal cannot be read.
    Quarantined,
    /// Cancelled.
    Cancelled,
    /// A defect of the server.
    Internal,
}

/// The `error` of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct RunFailure {
    /// The kind.
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
    /// The limit that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
    /// The boundary that noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<Boundary>,
    /// The number of that boundary check, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u64>,
    /// The step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
}

impl RunFailure {
    /// A failure that is a kind and a message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            limit: None,
            boundary: None,
            ordinal: None,
            step_id: None,
        }
    }
}
