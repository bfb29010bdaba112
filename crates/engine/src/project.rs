//! What readers see of a journal: steps with their attempts, the loop's trace, the changed files.

mod steps;
mod trace;

pub use steps::{AttemptView, ShownStatus, StepView, steps};
pub use trace::{TraceError, trace};

use portolan_core::{
    artifact::Artifact,
    event::{Event, EventError, Recorded},
};

/// The changed files that a journal names, ordered by path.
pub fn artifacts(records: &[Recorded]) -> Result<Vec<Artifact>, EventError> {
    let mut found = Vec::new();
    for record in records
        .iter()
        .filter(|record| record.kind.starts_with("artifact_"))
    {
        if let Event::ArtifactCreated(artifact)
        | Event::ArtifactModified(artifact)
        | Event::ArtifactDeleted(artifact) = record.event()?
        {
            found.push(artifact);
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
