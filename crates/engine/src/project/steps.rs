//! The steps of a run with their attempts: the data of the waterfall.

use portolan_core::{
    event::{Event, EventError, Recorded, StepStatus},
    ids::{Attempt, IdempotencyKey, RunId, StepId, StepKind},
    money::NanoUsd,
    time::Timestamp,
    usage::TokenUsage,
};
use serde::Serialize;

/// Where a step or an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownStatus {
    /// Dispatched, not answered.
    Started,
    /// Answered.
    Completed,
    /// Ended without an answer.
    Failed,
    /// Nobody knows whether it was executed.
    Ambiguous,
}

/// One attempt of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptView {
    /// Its number, from 1.
    pub attempt: Attempt,
    /// The key that was sent.
    pub idempotency_key: IdempotencyKey,
    /// Where it stands.
    pub status: ShownStatus,
    /// When it was intended.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepView {
    /// Its id.
    pub step_id: StepId,
    /// What it does.
    pub kind: StepKind,
    /// The model or the tool.
    pub name: String,
    /// Where it stands.
    pub status: ShownStatus,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptView>,
    /// When it was first intended.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How it was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<StepStatus>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it consumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// What it cost, failed attempts included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Whether a part of that is an estimate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_estimate: bool,
}

impl StepView {
    fn add_cost(&mut self, cost: Option<NanoUsd>, estimate: bool) {
        if let Some(cost) = cost {
            self.cost_usd = Some(self.cost_usd.unwrap_or_default().saturating_add(cost));
            self.cost_is_estimate |= estimate;
        }
    }

    fn end_attempt(&mut self, status: ShownStatus, at: Timestamp, error: Option<String>) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.status = status;
            attempt.finished_at = Some(at);
            attempt.error = error;
        }
    }
}

/// The steps that a journal names, in their order.
pub fn steps(run: RunId, records: &[Recorded]) -> Result<Vec<StepView>, EventError> {
    let mut steps: Vec<StepView> = Vec::new();
    for record in records {
        let Some(id) = record.step else { continue };
        let event = record.event()?;
        if let Event::StepStarted(started) = &event {
            let attempt = AttemptView {
                attempt: record.attempt.unwrap_or(Attempt::FIRST),
                idempotency_key: IdempotencyKey::new(run, id, record.attempt.unwrap_or(Attempt::FIRST)),
                status: ShownStatus::Started,
                started_at: record.at,
                finished_at: None,
                error: None,
            };
            match steps.iter_mut().rev().find(|step| step.step_id == id) {
                Some(step) => {
                    step.status = ShownStatus::Started;
                    step.finished_at = None;
                    step.attempts.push(attempt);
                }
                None => steps.push(StepView {
                    step_id: id,
                    kind: started.kind,
                    name: started.name.clone(),
                    status: ShownStatus::Started,
                    attempts: vec![attempt],
                    started_at: record.at,
                    finished_at: None,
                    outcome: None,
                    model: None,
                    usage: None,
                    cost_usd: None,
                    cost_is_estimate: false,
                }),
            }
        } else if let Some(step) = steps.iter_mut().rev().find(|step| step.step_id == id) {
            update(step, event, record.at);
        }
    }
    Ok(steps)
}

/// Applies what followed the start of a step. An answer outweighs an earlier doubt.
fn update(step: &mut StepView, event: Event, at: Timestamp) {
    match event {
        Event::StepCompleted(done) => {
            let is_unknown = done.status == StepStatus::Unknown;
            step.status = if is_unknown {
                ShownStatus::Ambiguous
            } else {
                ShownStatus::Completed
            };
            step.finished_at = Some(at);
            step.outcome = Some(done.status);
            step.model = done.model;
            step.usage = done.usage;
            step.add_cost(done.cost_usd, done.cost_is_estimate);
            step.end_attempt(step.status, at, done.error);
        }
        Event::StepFailed(failed) => {
            step.status = ShownStatus::Failed;
            step.finished_at = Some(at);
            step.add_cost(failed.cost_usd, failed.cost_is_estimate);
            step.end_attempt(ShownStatus::Failed, at, Some(failed.message));
        }
        Event::StepAmbiguous(_) => {
            step.status = ShownStatus::Ambiguous;
            if let Some(attempt) = step.attempts.last_mut() {
                attempt.status = ShownStatus::Ambiguous;
            }
        }
        Event::RunQueued(_)
        | Event::RunStarted(_)
        | Event::RunRecovered(_)
        | Event::RunWaiting(_)
        | Event::RunResumed(_)
        | Event::RunCancelRequested(_)
        | Event::StepStarted(_)
        | Event::ResultRejected(_)
        | Event::ArtifactCreated(_)
        | Event::ArtifactModified(_)
        | Event::ArtifactDeleted(_)
        | Event::RunSucceeded(_)
        | Event::RunFailed(_)
        | Event::RunCancelled(_)
        | Event::Unknown { .. } => {}
    }
}
