//! A tool step: intent, invocation, observation; what is in doubt follows the class of the tool.

use super::{
    Drive, Interrupt, diverged,
    model::panic_message,
    recorded::{Outcome, recorded_outcome},
    workspace::lost_blob,
};
use crate::{
    facts::{StepFacts, StepOutcome},
    ports::LedgerAnswer,
    writer::NextCall,
};
use futures::FutureExt;
use portolan_agent::machine::{NeedTool, Step, Stop, Unanswered};
use portolan_core::{
    artifact::{Artifact, Operation},
    cancel::CancelToken,
    event::{Event, StepAmbiguous, StepCompleted, StepFailed, StepFailure, StepStarted, StepStatus},
    faults::{Plant, Point, planted},
    ids::{Attempt, IdempotencyKey, StepId, StepKind},
    manifest::ManifestChange,
    money::NanoUsd,
    tool::{ToolClass, ToolError, ToolInvocation},
};
use serde_json::{Value, value::to_raw_value};
use std::panic::AssertUnwindSafe;

/// The most bytes of an output as JSON that a model sees and a journal keeps inline.
pub(crate) const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// How long a tool that is given up may take to end what it started, in milliseconds.
const STOP_PATIENCE_MS: u64 = 1_500;

/// What is told about a step whose outcome nobody knows.
const UNKNOWN_OUTCOME: &str = "the tool was started and the outcome is unknown; it was not run again";

impl Drive<'_> {
    pub(super) async fn tool(&mut self, need: NeedTool) -> Result<Step, Interrupt> {
        let step = need.step();
        let facts = self.known(step, need.digest())?;
        match facts.outcome {
            Some((StepOutcome::Completed(done), at)) => {
                Ok(need.outcome(Ok(recorded_outcome(&done).map_err(diverged)?), at))
            }
            Some((StepOutcome::Failed(_), at)) => {
                Ok(need.outcome(Err(Unanswered::Aborted(Stop::Cancelled)), at))
            }
            None => {
                let outcome = self.run_tool(&need, &facts).await?;
                Ok(need.outcome(outcome, self.deps.clock.now()))
            }
        }
    }

    async fn run_tool(
        &mut self,
        need: &NeedTool,
        facts: &StepFacts,
    ) -> Result<Result<Outcome, Unanswered>, Interrupt> {
        let step = need.step();
        let attempt = facts.dispatch.map_or(Attempt::FIRST, |dispatch| dispatch.attempt);
        let key = IdempotencyKey::new(self.run.run, step, attempt);
        let tool = self.equipment.tools.get(need.place()).cloned();
        let tool =
            tool.ok_or_else(|| diverged(format!("there is no tool at place {} any more", need.place())))?;
        let class = tool.class(need.arguments());
        if facts.dispatch.is_some() {
            if let Some(outcome) = self.resolve_doubt(step, &key, class).await? {
                let files = self.file_change().await?;
                self.journal_outcome((step, attempt), &outcome, files).await?;
                return Ok(Ok(outcome));
            }
        } else {
            self.give_back_if_draining().await?;
            let started = StepStarted {
                kind: StepKind::Tool,
                name: need.call().name.clone(),
                request_hash: need.digest(),
                reserved_usd: None,
            };
            let event = Event::StepStarted(started);
            self.writer.at(Point::ToolBeforeIntent).await;
            self.writer
                .flush(
                    Some(NextCall {
                        amount: NanoUsd::ZERO,
                        event,
                        step: (step, attempt),
                    }),
                    None,
                )
                .await?;
            self.writer.at(Point::ToolIntended).await;
        }
        self.hold_lease()?;
        match self.invoke(need, &*tool, &key).await {
            Ok(outcome) => {
                self.writer.at(Point::ToolAnswered).await;
                let files = match class {
                    ToolClass::Pure => None,
                    ToolClass::Idempotent | ToolClass::Once => self.file_change().await?,
                };
                let outcome = self.bounded(step, outcome).await?;
                self.journal_outcome((step, attempt), &outcome, files).await?;
                Ok(Ok(outcome))
            }
            Err(stop) => {
                self.writer.at(Point::CallAborted).await;
                self.note_stop(stop)?;
                let failed = StepFailed {
                    reason: StepFailure::Aborted,
                    message: "the invocation was given up".to_owned(),
                    retryable: false,
                    not_before: None,
                    cost_usd: None,
                    cost_is_estimate: false,
                };
                self.writer
                    .push(&Event::StepFailed(failed), Some((step, attempt)))?;
                Ok(Err(Unanswered::Aborted(stop)))
            }
        }
    }

    /// Decides about an invocation that was started and not answered. `None`: it runs, under the same key.
    ///
    /// The workspace may hold a part of its work. Unless the ledger vouches for the whole, the files of the last committed
    /// step are put back first.
    async fn resolve_doubt(
        &mut self,
        step: StepId,
        key: &IdempotencyKey,
        class: ToolClass,
    ) -> Result<Option<Outcome>, Interrupt> {
        let answer = match class {
            ToolClass::Pure | ToolClass::Idempotent => LedgerAnswer::NeverRan,
            ToolClass::Once if planted(Plant::OnceToolRunsAgain) => LedgerAnswer::NeverRan,
            ToolClass::Once => self.deps.ledger.outcome(key).await,
        };
        match answer {
            LedgerAnswer::Ran {
                outcome,
                workspace_kept,
            } => {
                if workspace_kept {
                    self.restore_owed = false;
                }
                self.restore_owed_files().await?;
                Ok(Some(outcome))
            }
            LedgerAnswer::NeverRan => {
                self.restore_owed_files().await?;
                Ok(None)
            }
            LedgerAnswer::NobodyKnows => {
                self.restore_owed_files().await?;
                let ambiguous = StepAmbiguous {
                    message: UNKNOWN_OUTCOME.to_owned(),
                };
                self.writer
                    .push(&Event::StepAmbiguous(ambiguous), Some((step, Attempt::FIRST)))?;
                Ok(Some(Err(ToolError::Unknown(UNKNOWN_OUTCOME.to_owned()))))
            }
        }
    }

    /// Runs the tool. Cancel and the end of the wall time drop the invocation, which stops what it started.
    async fn invoke(
        &mut self,
        need: &NeedTool,
        tool: &dyn portolan_core::tool::Tool,
        key: &IdempotencyKey,
    ) -> Result<Outcome, Stop> {
        self.signals.take_inbox(&self.writer.inbox);
        let wall_time = self.configuration.configured.limits.wall_time_ms;
        let left_ms = wall_time.map_or(u64::MAX, |wall_time_ms| self.active.left_ms(wall_time_ms));
        let cancel = CancelToken::new();
        let invocation = ToolInvocation {
            call_id: &need.call().id,
            arguments: need.arguments(),
            key: Some(key),
            workspace: self.equipment.workspace.as_deref(),
            cancel: &cancel,
        };
        let call = AssertUnwindSafe(async { tool.call(invocation).await }).catch_unwind();
        let mut call = std::pin::pin!(call);
        let signals = &mut self.signals;
        let timer = self.deps.clock.sleep_ms(left_ms);
        let stop = tokio::select! {
            biased;
            outcome = &mut call => {
                return Ok(outcome.unwrap_or_else(|panic| Err(ToolError::Failed(panic_message(&*panic)))));
            }
            () = signals.cancelled() => Stop::Cancelled,
            () = timer, if wall_time.is_some() => Stop::OutOfTime,
        };
        // The tool ends what it started before anybody looks at the files; one that does not answer is dropped.
        cancel.cancel();
        let patience = self.deps.clock.sleep_ms(STOP_PATIENCE_MS);
        tokio::select! {
            biased;
            _ = call => {}
            () = patience => {}
        }
        Err(stop)
    }

    /// Cuts an output that is too large. What is cut is marked, and the whole is kept as an artifact of the run.
    async fn bounded(&mut self, step: StepId, outcome: Outcome) -> Result<Outcome, Interrupt> {
        let value = match outcome {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        };
        let Ok(encoded) = serde_json::to_string(&value) else {
            return Ok(Err(ToolError::Failed(
                "the output cannot be written as JSON".to_owned(),
            )));
        };
        if encoded.len() <= MAX_OUTPUT_BYTES {
            return Ok(Ok(value));
        }
        let cut = cut(&value, &encoded);
        let size = encoded.len() as u64;
        let kept = self
            .deps
            .blobs
            .put(vec![encoded.into_bytes()])
            .await
            .map_err(lost_blob)?;
        let path = format!(".portolan/outputs/{step}.json");
        let whole = Artifact {
            path,
            operation: Operation::Created,
            size: Some(size),
            digest: kept.first().copied(),
        };
        self.writer.push(&Event::ArtifactCreated(whole), None)?;
        Ok(Ok(cut))
    }

    async fn journal_outcome(
        &mut self,
        step: (StepId, Attempt),
        outcome: &Outcome,
        files: Option<ManifestChange>,
    ) -> Result<(), Interrupt> {
        let (status, output, error) = match outcome {
            Ok(value) => {
                let raw = to_raw_value(value)
                    .map_err(|error| diverged(format!("an output cannot be kept: {error}")))?;
                (StepStatus::Ok, Some(raw), None)
            }
            Err(ToolError::Denied(message)) => (StepStatus::Denied, None, Some(message.clone())),
            Err(ToolError::Failed(message)) => (StepStatus::Error, None, Some(message.clone())),
            Err(ToolError::Unavailable(message)) => (StepStatus::Unavailable, None, Some(message.clone())),
            Err(ToolError::Unknown(message)) => (StepStatus::Unknown, None, Some(message.clone())),
        };
        let done = StepCompleted {
            status,
            output,
            error,
            model: None,
            usage: None,
            cost_usd: None,
            cost_is_estimate: false,
            files,
        };
        self.writer.push(&Event::StepCompleted(done), Some(step))?;
        Ok(())
    }
}

/// The head of an output that is too large, with a mark that says what is missing.
fn cut(value: &Value, encoded: &str) -> Value {
    let text = value.as_str().unwrap_or(encoded);
    let mark = format!("\n[cut: the whole output has {} bytes as JSON]", encoded.len());
    // A character needs at most six bytes as JSON, so this many bytes of text always fit.
    let mut room = (MAX_OUTPUT_BYTES - mark.len() - 8) / 6;
    let fits = |text: &str| {
        serde_json::to_string(text).is_ok_and(|json| json.len() + mark.len() <= MAX_OUTPUT_BYTES - 8)
    };
    // Most text needs one byte a character: take more of it while it fits.
    while room < text.len() && fits(&text[..text.floor_char_boundary((room * 2).min(text.len()))]) {
        room = (room * 2).min(text.len());
    }
    let head = &text[..text.floor_char_boundary(room)];
    Value::String(format!("{head}{mark}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_output_fits_whatever_it_is_made_of() {
        for text in [
            "x".repeat(3 << 20),
            "\u{0}".repeat(2 << 20),
            "é".repeat(1 << 20),
            "\u{1F600}".repeat(1 << 19),
        ] {
            let value = Value::String(text);
            let encoded = serde_json::to_string(&value).expect("a string");
            let cut = cut(&value, &encoded);
            let size = serde_json::to_string(&cut).expect("a string").len();
            assert!(size <= MAX_OUTPUT_BYTES, "{size}");
            assert!(size > MAX_OUTPUT_BYTES / 4, "{size}: too much was cut");
            assert!(
                cut.as_str()
                    .expect("a string")
                    .ends_with(&format!("has {} bytes as JSON]", encoded.len()))
            );
        }
    }
}
