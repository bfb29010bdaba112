//! The loop's trace of a run: its journal, folded through the same machine.

use crate::{
    Configuration,
    facts::{Facts, FactsError},
    replay::fold::{Answer, Fold},
};
use portolan_core::{event::Recorded, trace::TraceEvent};

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The journal cannot be read.
    #[error("the journal cannot be read")]
    Facts(#[from] FactsError),
    /// The configuration cannot be read.
    #[error("the configuration of the run cannot be read")]
    Configuration(#[source] serde_json::Error),
    /// The journal and the machine disagree.
    #[error("the journal and the machine disagree: {0}")]
    Diverged(String),
}

/// The trace so far. A run whose configuration is not fixed has none.
pub fn trace(records: &[Recorded]) -> Result<Vec<TraceEvent>, TraceError> {
    let facts = Facts::read(records)?;
    let Some(started) = facts.started.clone() else {
        return Ok(Vec::new());
    };
    let configuration: Configuration =
        serde_json::from_str(started.configured.get()).map_err(TraceError::Configuration)?;
    let (mut fold, mut step) =
        Fold::begin(facts, records, configuration, started.began_at).map_err(TraceError::Diverged)?;
    loop {
        step = match fold.answer(step).map_err(TraceError::Diverged)? {
            Answer::Next(step) => step,
            Answer::Edge(step) => return Ok(step.trace().to_vec()),
        };
    }
}
