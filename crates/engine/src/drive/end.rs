//! The end of a run: evidence, then the terminal event with status and usage in one transaction.

use super::{Drive, Interrupt, diverged};
use portolan_agent::machine::{Done, NeedEvidence};
use portolan_core::{
    artifact::{Artifact, Operation},
    event::{Event, RunEnded, RunSucceeded},
    failure::{FailureKind, RunFailure},
    faults::Point,
};
use serde_json::value::to_raw_value;

impl Drive<'_> {
    /// Collects the changed files.
    pub(super) async fn evidence(&mut self, need: NeedEvidence) -> Result<Done, Interrupt> {
        let found = self.artifacts().await?;
        Ok(need.artifacts(found, self.deps.clock.now()))
    }

    /// Writes the end.
    pub(super) async fn finish(&mut self, done: &Done) -> Result<(), Interrupt> {
        self.journal_artifacts(done.artifacts())?;
        let artifacts_unknown = done.artifacts_unknown().map(str::to_owned);
        let terminal = match done.outcome() {
            Ok(value) => {
                let output = to_raw_value(value)
                    .map_err(|error| diverged(format!("the output cannot be kept: {error}")))?;
                Event::RunSucceeded(RunSucceeded {
                    output,
                    artifacts_unknown,
                })
            }
            Err(failure) => ended(failure.clone(), artifacts_unknown),
        };
        self.writer.push(&terminal, None)?;
        self.writer.at(Point::EndBeforeCommit).await;
        self.writer.flush(None, None).await?;
        Ok(())
    }

    /// Ends the run for a reason that the machine does not know. It still carries its changed files.
    pub(super) async fn fail_outside(&mut self, failure: RunFailure) -> Result<(), Interrupt> {
        let artifacts_unknown = match self.artifacts().await? {
            Ok(artifacts) => {
                self.journal_artifacts(&artifacts)?;
                None
            }
            Err(error) => Some(error),
        };
        self.writer.push(&ended(failure, artifacts_unknown), None)?;
        self.writer.flush(None, None).await?;
        Ok(())
    }

    fn journal_artifacts(&mut self, artifacts: &[Artifact]) -> Result<(), Interrupt> {
        for artifact in artifacts {
            let event = match artifact.operation {
                Operation::Created => Event::ArtifactCreated(artifact.clone()),
                Operation::Modified => Event::ArtifactModified(artifact.clone()),
                Operation::Deleted => Event::ArtifactDeleted(artifact.clone()),
            };
            self.writer.push(&event, None)?;
        }
        Ok(())
    }
}

fn ended(error: RunFailure, artifacts_unknown: Option<String>) -> Event {
    let is_cancel = error.kind == FailureKind::Cancelled;
    let ended = RunEnded {
        error,
        artifacts_unknown,
    };
    if is_cancel {
        Event::RunCancelled(ended)
    } else {
        Event::RunFailed(ended)
    }
}
