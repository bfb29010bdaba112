//! A model step: intent, send, answer; what is in doubt is sent again under its own key.

use super::{
    Drive, Interrupt, diverged, pause,
    recorded::{recorded_failure, recorded_reply},
};
use crate::{
    facts::{Dispatch, StepFacts, StepOutcome},
    writer::{Flushed, NextCall},
};
use futures::FutureExt;
use portolan_agent::machine::{NeedModel, Step, Stop, Unanswered, unusable};
use portolan_core::{
    event::{Event, StepAmbiguous, StepCompleted, StepFailed, StepFailure, StepStarted, StepStatus},
    failure::{FailureKind, RunFailure},
    faults::{Plant, Point, planted},
    ids::{Attempt, IdempotencyKey, StepId, StepKind},
    model::{ModelError, ModelFailure, ModelReply},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::ScopeKey;
use serde_json::value::to_raw_value;
use std::panic::AssertUnwindSafe;

/// What came of one send.
enum Dispatched {
    Answer(Box<ModelReply>),
    Failure(ModelError),
    Aborted(Stop),
    /// The run was cancelled before the first byte left.
    Unsent(Stop),
}

/// The attempt that a step stands at.
struct AttemptState {
    step: StepId,
    attempt: Attempt,
    reserved: NanoUsd,
    /// Its intent is durable, and nobody knows whether it was executed.
    in_doubt: bool,
    sends: u32,
    not_before: Option<Timestamp>,
}

impl AttemptState {
    /// A step that nothing is known about.
    const fn first(step: StepId) -> Self {
        Self {
            step,
            attempt: Attempt::FIRST,
            reserved: NanoUsd::ZERO,
            in_doubt: false,
            sends: 0,
            not_before: None,
        }
    }
}

impl Drive<'_> {
    pub(super) async fn model(&mut self, need: NeedModel) -> Result<Step, Interrupt> {
        let step = need.step();
        let facts = self.known(step, need.digest())?;
        match facts.outcome {
            Some((StepOutcome::Completed(done), at)) => {
                if planted(Plant::CompletedDispatchedAgain) {
                    let state = AttemptState::first(step);
                    let _again = self.send(&need, &state).await;
                }
                Ok(need.reply(Ok(recorded_reply(&done).map_err(diverged)?), at))
            }
            Some((StepOutcome::Failed(failed), at)) => {
                Ok(need.reply(Err(recorded_failure(step, &failed, Stop::Cancelled)), at))
            }
            None => {
                let raised = u32::from(facts.dispatch.is_some() && planted(Plant::AttemptRaisedByCrash));
                let attempt = Attempt(facts.retryable_failures.saturating_add(1 + raised));
                let mut state = AttemptState {
                    step,
                    attempt,
                    reserved: facts.dispatch.map_or(NanoUsd::ZERO, |dispatch| dispatch.reserved),
                    in_doubt: facts.dispatch.is_some(),
                    // A wait that holds no worker must not start the count anew.
                    sends: facts.retryable_failures.max(facts.waits),
                    not_before: facts.not_before,
                };
                let reply = self.ask(&need, &mut state).await?;
                Ok(need.reply(reply, self.deps.clock.now()))
            }
        }
    }

    /// What the journal knows about the step that the machine has come to. Another step, or another request, diverges.
    pub(super) fn known(
        &mut self,
        step: StepId,
        digest: portolan_core::digest::Digest,
    ) -> Result<StepFacts, Interrupt> {
        if let Some(recorded) = self.facts.next_step()
            && recorded != step
        {
            return Err(diverged(format!(
                "the journal goes on with {recorded}, the machine with {step}"
            )));
        }
        let facts = self.facts.visit(step).unwrap_or_default();
        match facts.dispatch {
            Some(Dispatch { digest: recorded, .. })
                if recorded != digest && !planted(Plant::DivergenceIgnored) =>
            {
                Err(diverged(format!(
                    "the request of {step} is another one than the recorded one"
                )))
            }
            Some(_) | None => Ok(facts),
        }
    }

    /// Asks until there is an answer or none is to be had.
    async fn ask(
        &mut self,
        need: &NeedModel,
        state: &mut AttemptState,
    ) -> Result<Result<ModelReply, Unanswered>, Interrupt> {
        loop {
            if let Some(until) = state.not_before.take()
                && let Some(stop) = self.pause_until(until).await?
            {
                self.note_stop(stop)?;
                return Ok(Err(Unanswered::Aborted(stop)));
            }
            self.give_back_if_draining().await?;
            if let Some(refused) = self.intend(need, state).await? {
                return Ok(Err(refused));
            }
            self.hold_lease()?;
            state.sends += 1;
            match self.send(need, state).await {
                Dispatched::Answer(reply) => {
                    self.writer.at(Point::ModelAnswered).await;
                    self.journal_answer(&reply, state)?;
                    return Ok(Ok(*reply));
                }
                Dispatched::Aborted(stop) => {
                    self.writer.at(Point::CallAborted).await;
                    self.note_stop(stop)?;
                    self.fail_attempt(
                        state,
                        StepFailure::Aborted,
                        "the call was given up".to_owned(),
                        true,
                    )?;
                    return Ok(Err(Unanswered::Aborted(stop)));
                }
                Dispatched::Unsent(stop) => {
                    self.note_stop(stop)?;
                    self.fail_attempt(
                        state,
                        StepFailure::Aborted,
                        "the call was never sent".to_owned(),
                        false,
                    )?;
                    return Ok(Err(Unanswered::Aborted(stop)));
                }
                Dispatched::Failure(error) => {
                    if let Some(failure) = self.take_failure(error, state).await? {
                        return Ok(Err(Unanswered::Failed(failure)));
                    }
                }
            }
        }
    }

    /// Makes the intent durable, or what is in doubt known, before the first byte leaves.
    async fn intend(
        &mut self,
        need: &NeedModel,
        state: &mut AttemptState,
    ) -> Result<Option<Unanswered>, Interrupt> {
        if state.in_doubt {
            return self.intend_again(state).await;
        }
        let worst = match self.worst_case(need) {
            Ok(worst) => worst,
            Err(failure) => return Ok(Some(Unanswered::Refused(failure))),
        };
        let started = StepStarted {
            kind: StepKind::Llm,
            name: self.configuration.model.clone(),
            request_hash: need.digest(),
            reserved_usd: Some(worst).filter(|worst| *worst > NanoUsd::ZERO),
        };
        let event = Event::StepStarted(started);
        if planted(Plant::EffectBeforeIntent) {
            self.writer.push(&event, Some((state.step, state.attempt)))?;
            return Ok(None);
        }
        let next = NextCall {
            amount: worst,
            event,
            step: (state.step, state.attempt),
        };
        self.writer.at(Point::ModelBeforeIntent).await;
        match self.writer.flush(Some(next), None).await? {
            Flushed::Done => {
                state.reserved = worst;
                self.writer.at(Point::ModelIntended).await;
                Ok(None)
            }
            Flushed::TopUpRefused(_) if planted(Plant::TopUpIgnored) => Ok(None),
            Flushed::TopUpRefused(scope) => Ok(Some(Unanswered::Refused(over_budget(&scope, worst)))),
        }
    }

    /// A step in doubt is sent again under the same key, unless the run is cancelled: then it settles as an estimate.
    async fn intend_again(&mut self, state: &AttemptState) -> Result<Option<Unanswered>, Interrupt> {
        self.signals.take_inbox(&self.writer.inbox);
        if self.signals.is_cancelled() {
            self.note_stop(Stop::Cancelled)?;
            let message = "the run was cancelled while the call was in doubt".to_owned();
            self.fail_attempt(state, StepFailure::Aborted, message, true)?;
            return Ok(Some(Unanswered::Aborted(Stop::Cancelled)));
        }
        if !self.model.honours_idempotency_keys() {
            let message = "the call may have been executed; it is sent again under the same key, \
                           which the provider is not known to honour";
            let ambiguous = Event::StepAmbiguous(StepAmbiguous {
                message: message.to_owned(),
            });
            self.writer.push(&ambiguous, Some((state.step, state.attempt)))?;
        }
        self.writer.flush(None, None).await?;
        Ok(None)
    }

    /// One send, bounded by the attempt's timeout, the run's wall time and cancel.
    async fn send(&mut self, need: &NeedModel, state: &AttemptState) -> Dispatched {
        let attempt = match state.in_doubt && planted(Plant::KeyChangesOnResend) {
            true => state.attempt.next(),
            false => state.attempt,
        };
        let key = IdempotencyKey::new(self.run.run, state.step, attempt);
        let timeout_ms = self.configuration.retries.timeout_ms;
        let wall_time = self.configuration.configured.limits.wall_time_ms;
        let left_ms = wall_time.map_or(u64::MAX, |wall_time_ms| self.active.left_ms(wall_time_ms));
        self.signals.take_inbox(&self.writer.inbox);
        if self.signals.is_cancelled() && !state.in_doubt {
            return Dispatched::Unsent(Stop::Cancelled);
        }
        let timer = self.deps.clock.sleep_ms(timeout_ms.min(left_ms));
        let model = std::sync::Arc::clone(&self.model);
        // Inside a block, so that a panic of `call` itself is caught too.
        let call = AssertUnwindSafe(async { model.call(Some(&key), need.request()).await }).catch_unwind();
        let signals = &mut self.signals;
        let answer = tokio::select! {
            biased;
            answer = call => answer,
            () = signals.cancelled() => return Dispatched::Aborted(Stop::Cancelled),
            () = timer => {
                if left_ms <= timeout_ms {
                    return Dispatched::Aborted(Stop::OutOfTime);
                }
                let message = format!("no answer within {timeout_ms} ms");
                return Dispatched::Failure(ModelError::new(ModelFailure::InDoubt, message));
            }
        };
        match answer {
            Ok(Ok(reply)) => match unusable(&reply.action) {
                None => Dispatched::Answer(Box::new(reply)),
                Some(message) => Dispatched::Failure(ModelError::new(ModelFailure::Malformed, message)),
            },
            Ok(Err(error)) => Dispatched::Failure(error),
            Err(panic) => {
                Dispatched::Failure(ModelError::new(ModelFailure::Panicked, panic_message(&*panic)))
            }
        }
    }

    fn journal_answer(&mut self, reply: &ModelReply, state: &AttemptState) -> Result<(), Interrupt> {
        let (cost, estimate) = self.cost_of(reply.usage.as_ref(), state.reserved);
        // Usage and model stand beside the output; keeping them twice would only make the journal larger.
        let kept = ModelReply {
            usage: None,
            model: None,
            ..reply.clone()
        };
        let output =
            to_raw_value(&kept).map_err(|error| diverged(format!("a reply cannot be kept: {error}")))?;
        let done = StepCompleted {
            status: StepStatus::Ok,
            output: Some(output),
            error: None,
            model: reply.model.clone(),
            usage: reply.usage,
            cost_usd: cost,
            cost_is_estimate: estimate,
            files: None,
        };
        self.writer
            .push(&Event::StepCompleted(done), Some((state.step, state.attempt)))?;
        self.writer.settle(state.reserved, cost.unwrap_or_default());
        Ok(())
    }

    /// Ends an attempt for good.
    fn fail_attempt(
        &mut self,
        state: &AttemptState,
        reason: StepFailure,
        message: String,
        may_be_billed: bool,
    ) -> Result<(), Interrupt> {
        let (cost_usd, cost_is_estimate) = if may_be_billed {
            self.estimate(state.reserved)
        } else {
            (None, false)
        };
        let failed = StepFailed {
            reason,
            message,
            retryable: false,
            not_before: None,
            cost_usd,
            cost_is_estimate,
        };
        self.writer
            .push(&Event::StepFailed(failed), Some((state.step, state.attempt)))?;
        self.writer.settle(state.reserved, cost_usd.unwrap_or_default());
        Ok(())
    }

    /// Decides what follows a failure: a new attempt, the same attempt again, or the end. `Some` is the end.
    async fn take_failure(
        &mut self,
        error: ModelError,
        state: &mut AttemptState,
    ) -> Result<Option<RunFailure>, Interrupt> {
        let policy = self.configuration.retries;
        let may_send_again = state.sends < policy.max_attempts;
        // An earlier send of this attempt may have been executed. That this one was not says nothing about that: a new key
        // would be charged a second time.
        let earlier_in_doubt = state.in_doubt;
        let says_nothing = match error.failure {
            ModelFailure::InDoubt => true,
            ModelFailure::NotSent | ModelFailure::RateLimited | ModelFailure::Overloaded => earlier_in_doubt,
            ModelFailure::Refused
            | ModelFailure::Account
            | ModelFailure::Malformed
            | ModelFailure::Panicked => false,
        };
        let until = || {
            let delay = pause::delay_ms(&policy, state.sends, error.retry_after_ms);
            self.deps.clock.now().plus_ms(delay)
        };
        if says_nothing && may_send_again {
            state.not_before = Some(until());
            state.in_doubt = true;
            return Ok(None);
        }
        if error.failure.is_definite_and_retryable() && may_send_again {
            let not_before = until();
            let (cost_usd, cost_is_estimate) = match earlier_in_doubt {
                true => self.estimate(state.reserved),
                false => (None, false),
            };
            let failed = StepFailed {
                reason: StepFailure::Provider,
                message: error.message,
                retryable: true,
                not_before: Some(not_before),
                cost_usd,
                cost_is_estimate,
            };
            self.writer
                .push(&Event::StepFailed(failed), Some((state.step, state.attempt)))?;
            self.writer.settle(state.reserved, cost_usd.unwrap_or_default());
            self.writer.at(Point::RetryDecided).await;
            // Committed before anything else: only a committed failure moves the attempt.
            self.writer.flush(None, None).await?;
            self.writer.at(Point::RetryCommitted).await;
            state.attempt = state.attempt.next();
            state.reserved = NanoUsd::ZERO;
            state.in_doubt = false;
            state.not_before = Some(not_before);
            return Ok(None);
        }
        let may_be_billed =
            earlier_in_doubt || matches!(error.failure, ModelFailure::InDoubt | ModelFailure::Panicked);
        self.fail_attempt(state, StepFailure::Provider, error.message.clone(), may_be_billed)?;
        let failure = RunFailure::new(FailureKind::Provider, error.message);
        Ok(Some(RunFailure {
            step_id: Some(state.step),
            ..failure
        }))
    }
}

fn over_budget(scope: &ScopeKey, worst: NanoUsd) -> RunFailure {
    let whose = match scope {
        ScopeKey::Tenant => "the tenant".to_owned(),
        ScopeKey::Agent(agent) => format!("the agent {agent}"),
    };
    let message =
        format!("the budget of {whose} has no room for the next model call, which could cost {worst} USD");
    RunFailure::new(FailureKind::BudgetExhausted, message)
}

/// What a panic said.
pub(super) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    said.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".to_owned())
}

/// A model whose name resolves to nothing any more.
pub(super) struct Unresolved(pub(super) crate::ports::UnknownModel);

impl portolan_core::model::Model for Unresolved {
    fn call<'a>(
        &'a self,
        _key: Option<&'a IdempotencyKey>,
        _request: portolan_core::model::ModelRequest<'a>,
    ) -> portolan_core::Fut<'a, Result<ModelReply, ModelError>> {
        let error = ModelError::new(ModelFailure::Refused, self.0.to_string());
        Box::pin(std::future::ready(Err(error)))
    }
}
