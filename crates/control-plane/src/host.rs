//! What the control plane asks of whoever executes runs and knows their rules.

use crate::problem::FieldError;
use portolan_core::{
    agent::{AgentDefinition, AgentVersion, RunLimits},
    artifact::Artifact,
    event::{Recorded, RunQueued},
    ids::{Epoch, RunId},
    time::Timestamp,
};
use portolan_journal::{Claim, RunRef};
use serde_json::value::RawValue;
use std::{fmt, sync::Arc};

/// A rule that a definition or a request breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer into the definition or the request.
    pub pointer: String,
    /// A machine word.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
}

impl From<Violation> for FieldError {
    fn from(violation: Violation) -> Self {
        Self {
            pointer: Some(violation.pointer),
            parameter: None,
            code: violation.code,
            message: violation.message,
        }
    }
}

/// A run that was admitted together with its claim.
#[derive(Debug)]
pub struct Launched {
    /// Which.
    pub run: RunRef,
    /// The generation that the claim got.
    pub epoch: Epoch,
    /// What it was asked to do.
    pub queued: RunQueued,
    /// The agent, in the version that it is pinned to.
    pub agent: Arc<AgentVersion>,
    /// When it was admitted.
    pub at: Timestamp,
}

/// A free place on a host. Whoever drops it gives it back.
pub struct Place {
    /// What claims a run for this place.
    pub claim: Claim,
    /// Drives the run there.
    pub launch: Box<dyn FnOnce(Launched) + Send>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("claim", &self.claim)
            .finish_non_exhaustive()
    }
}

/// A journal that cannot be shown in the form that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal of the run cannot be shown: {0}")]
pub struct ProjectionError(pub String);

/// Executes runs, and knows what can run and how a journal reads.
///
/// None of the methods blocks or waits. `check_run` is on the path of every new run.
pub trait RunHost: Send + Sync + fmt::Debug {
    /// A free place of this process; `None` leaves a new run to the next sweep.
    fn reserve(&self) -> Option<Place>;

    /// Looks for runs soon: after an admission without a claim, and after a command.
    fn poke(&self);

    /// Whether the first look for runs is done.
    fn first_sweep_done(&self) -> bool;

    /// Whether no new work is taken.
    fn is_draining(&self) -> bool;

    /// What keeps an agent of this definition from running at all.
    fn check_definition(&self, definition: &AgentDefinition) -> Vec<Violation>;

    /// What keeps this run of the agent from starting.
    fn check_run(&self, definition: &AgentDefinition, request: &RunQueued) -> Vec<Violation>;

    /// The limits of a run under those of its agent, with every default filled in.
    fn effective_limits(&self, agent: &RunLimits, run: &RunLimits) -> RunLimits;

    /// The steps of a run with their attempts: a JSON list.
    fn steps(&self, run: RunId, records: &[Recorded]) -> Result<Box<RawValue>, ProjectionError>;

    /// The trace of the bounded loop: a JSON list.
    fn trace(&self, records: &[Recorded]) -> Result<Box<RawValue>, ProjectionError>;

    /// The files that a run changed, ordered by path.
    fn artifacts(&self, records: &[Recorded]) -> Result<Vec<Artifact>, ProjectionError>;
}
