//! The fold: what a journal says about its run. The run row keeps it, and everyone computes it here.

use portolan_core::{
    event::{Event, RunStarted},
    ids::{StepId, StepKind},
    money::NanoUsd,
    time::Timestamp,
    usage::{LoopUsage, TokenUsage},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The status of a run as its journal tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Admitted.
    #[default]
    Queued,
    /// Started.
    Running,
    /// Waits for a timer, a budget or a person.
    Waiting,
    /// Ended with a value.
    Succeeded,
    /// Ended without one.
    Failed,
    /// Ended because somebody asked for it.
    Cancelled,
}

impl RunStatus {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::Queued,
            Self::Running,
            Self::Waiting,
            Self::Succeeded,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.name() == name)
    }

    /// Whether the run has ended.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::Waiting => false,
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
        }
    }
}

/// The fold of a journal.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// The status.
    pub status: RunStatus,
    /// What the loop counted.
    pub usage: LoopUsage,
    /// Tokens of all calls.
    pub tokens: TokenUsage,
    /// Cost of all calls whose price is known.
    pub cost: NanoUsd,
    /// Whether a call was answered whose price is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cost_unknown: bool,
    /// Whether a part of the cost is an estimate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_estimate: bool,
    /// How often another owner went on from the journal.
    #[serde(skip_serializing_if = "is_zero")]
    pub recoveries: u32,
    /// The model of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// When the configuration was fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A journal that no run can have written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// The first event is another.
    #[error("the journal begins with {0} instead of run_queued")]
    Beginning(String),
    /// Something follows the end.
    #[error("{0} follows the end of the run")]
    AfterTheEnd(String),
    /// An event that needs a step has none, or one of the wrong kind.
    #[error("{0} does not name its step")]
    Stepless(String),
    /// The sum of the costs does not fit.
    #[error("the cost of the run does not fit into its type")]
    CostOverflow,
}

impl Progress {
    /// Applies the next event.
    pub fn apply(&mut self, event: &Event, at: Timestamp, step: Option<StepId>) -> Result<(), FoldError> {
        if self.status.is_terminal() {
            return Err(FoldError::AfterTheEnd(event.kind().to_owned()));
        }
        match event {
            Event::RunQueued(_) => {}
            Event::RunStarted(started) => self.start(started, at),
            Event::RunRecovered(recovered) => self.recoveries = recovered.recoveries,
            Event::RunWaiting(_) => self.status = RunStatus::Waiting,
            Event::RunResumed(_) => self.status = RunStatus::Running,
            Event::StepStarted(started) => {
                let step = step.ok_or_else(|| FoldError::Stepless(event.kind().to_owned()))?;
                if started.kind == StepKind::Tool {
                    self.usage.tool_calls = self.usage.tool_calls.max(step.number);
                }
            }
            Event::StepCompleted(done) => {
                let step = step.ok_or_else(|| FoldError::Stepless(event.kind().to_owned()))?;
                if step.kind == StepKind::Llm {
                    self.usage.model_calls += 1;
                    self.cost_unknown |= done.cost_usd.is_none();
                }
                if let Some(tokens) = &done.usage {
                    self.tokens.add(tokens);
                }
                self.spend(done.cost_usd, done.cost_is_estimate)?;
            }
            Event::StepFailed(failed) => self.spend(failed.cost_usd, failed.cost_is_estimate)?,
            Event::ResultRejected(_) => self.usage.result_rejections += 1,
            Event::RunSucceeded(_) => self.end(RunStatus::Succeeded, at),
            Event::RunFailed(_) => self.end(RunStatus::Failed, at),
            Event::RunCancelled(_) => self.end(RunStatus::Cancelled, at),
            Event::RunCancelRequested(_)
            | Event::StepAmbiguous(_)
            | Event::ArtifactCreated(_)
            | Event::ArtifactModified(_)
            | Event::ArtifactDeleted(_)
            | Event::Unknown { .. } => {}
        }
        Ok(())
    }

    fn start(&mut self, started: &RunStarted, at: Timestamp) {
        self.status = RunStatus::Running;
        self.model = Some(started.model.as_str().into());
        self.started_at = Some(at);
    }

    const fn end(&mut self, status: RunStatus, at: Timestamp) {
        self.status = status;
        self.finished_at = Some(at);
    }

    fn spend(&mut self, cost: Option<NanoUsd>, estimate: bool) -> Result<(), FoldError> {
        if let Some(cost) = cost {
            self.cost = self.cost.checked_add(cost).ok_or(FoldError::CostOverflow)?;
            self.cost_is_estimate |= estimate;
        }
        Ok(())
    }
}
