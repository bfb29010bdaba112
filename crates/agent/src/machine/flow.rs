//! The rules of the loop: which state follows which.

use super::{
    codec::explain,
    ending::{Ending, NeedEvidence},
    state::State,
    states::{Check, NeedModel, NeedTool, Step, Stop, Then, Unanswered},
};
use portolan_core::{
    RESULT_TOOL,
    call::{Action, Arguments, FinalResult, Observation, ToolCall},
    digest::{Chain, Digest},
    failure::{FailureKind, RunFailure},
    ids::{StepId, StepKind},
    limits::LimitKind,
    model::ModelReply,
    time::Timestamp,
    tool::ToolError,
    trace::{Boundary, TraceKind},
};
use serde_json::Value;

/// The most calls of one answer. Unknown names cost no budget, so something else has to bound them.
pub const MAX_BATCH: usize = 128;

/// Says why an action is no answer that the loop can use, if it is none.
///
/// The machine takes such an answer for a failure of the provider; a driver that tries again looks here first.
pub fn unusable(action: &Action) -> Option<String> {
    match action {
        Action::Batch(calls) if calls.is_empty() => Some("the model answered with an empty batch".to_owned()),
        Action::Batch(calls) if calls.len() > MAX_BATCH => Some(format!(
            "the model answered with a batch of {} calls; at most {MAX_BATCH} are accepted",
            calls.len()
        )),
        Action::Batch(_) | Action::Call(_) | Action::Final(_) => None,
    }
}

/// What follows a check that found nothing.
pub(super) fn go_on(check: Check, at: Timestamp) -> Step {
    let Check { state, then, .. } = check;
    match then {
        Then::Ask => ask(state, at),
        Then::Act(action) => act(state, action, at),
        Then::Invoke(call) => invoke(state, call, at),
        Then::Advance => advance(state, at),
        Then::Accept(value) => accept(state, value, at),
        Then::Correct => correct(state),
        Then::Fail(failure) => NeedEvidence::failed(state, failure, None),
        Then::GiveUp => {
            let message = format!(
                "the limit of {} model calls is used up",
                state.configured.limits.model_calls
            );
            exhausted(state, FailureKind::LimitExhausted, LimitKind::ModelCalls, message)
        }
    }
}

/// What follows a check that stops the execution.
pub(super) fn stop(check: Check, stop: Stop) -> Step {
    let (boundary, ordinal) = (check.boundary(), check.ordinal());
    let Check { state, then, .. } = check;
    let mut failure = match stop {
        Stop::Cancelled => RunFailure::new(FailureKind::Cancelled, "the execution was cancelled"),
        Stop::OutOfTime => {
            let message = state.configured.limits.wall_time_ms.map_or_else(
                || "the wall time is used up".to_owned(),
                |ms| format!("the wall time of {ms} ms is used up"),
            );
            let failure = RunFailure::new(FailureKind::LimitExhausted, message);
            RunFailure {
                limit: Some(LimitKind::WallTime),
                ..failure
            }
        }
    };
    failure.boundary = Some(boundary);
    failure.ordinal = Some(ordinal);
    let discarded = match then {
        Then::Accept(value) => Some(value),
        Then::Ask
        | Then::Act(_)
        | Then::Invoke(_)
        | Then::Advance
        | Then::Correct
        | Then::Fail(_)
        | Then::GiveUp => None,
    };
    NeedEvidence::failed(state, failure, discarded)
}

/// What follows a model request.
pub(super) fn replied(need: NeedModel, reply: Result<ModelReply, Unanswered>, at: Timestamp) -> Step {
    let step = need.step();
    let mut state = need.state;
    let failure = match reply {
        Ok(mut reply) => match unusable(&reply.action) {
            None => {
                state.begin_turn(&mut reply);
                return check(state, Boundary::AfterModel, Then::Act(reply.action));
            }
            Some(reason) => RunFailure::new(FailureKind::Provider, reason),
        },
        Err(Unanswered::Aborted(why)) => {
            // Nothing follows a stop, so it does not matter what the check would have led to.
            return stop(Check::new(state, Boundary::AfterModel, Then::Ask), why);
        }
        Err(Unanswered::Refused(failure)) => {
            state.trace.pop();
            return NeedEvidence::failed(state, at_step(failure, step), None);
        }
        Err(Unanswered::Failed(failure)) => failure,
    };
    let error = failure.message.clone();
    state.record(at, TraceKind::ModelFailed { error });
    check(state, Boundary::AfterModel, Then::Fail(at_step(failure, step)))
}

/// What follows an invocation.
pub(super) fn invoked(
    need: NeedTool,
    outcome: Result<Result<Value, ToolError>, Unanswered>,
    at: Timestamp,
) -> Step {
    let step = need.step();
    let NeedTool { mut state, call, .. } = need;
    let (tool, call_id) = (call.name.clone(), call.id.clone());
    match outcome {
        Ok(Ok(output)) => {
            state.record(at, TraceKind::ToolCompleted { tool, call_id });
            state.answer(call, Observation::Output(output));
            check(state, Boundary::AfterTool, Then::Advance)
        }
        Ok(Err(error)) => {
            let denied = matches!(error, ToolError::Denied(_));
            let error = error.to_string();
            let event = if denied {
                TraceKind::ToolDenied {
                    tool,
                    call_id,
                    error: error.clone(),
                }
            } else {
                TraceKind::ToolFailed {
                    tool,
                    call_id,
                    error: error.clone(),
                }
            };
            state.record(at, event);
            state.answer(call, Observation::Error(error));
            check(state, Boundary::AfterTool, Then::Advance)
        }
        Err(Unanswered::Aborted(why)) => stop(Check::new(state, Boundary::AfterTool, Then::Advance), why),
        Err(Unanswered::Refused(failure)) => {
            state.trace.pop();
            state.usage.tool_calls -= 1;
            NeedEvidence::failed(state, at_step(failure, step), None)
        }
        Err(Unanswered::Failed(failure)) => {
            let error = failure.message.clone();
            state.record(at, TraceKind::ToolFailed { tool, call_id, error });
            check(state, Boundary::AfterTool, Then::Fail(at_step(failure, step)))
        }
    }
}

/// The digest of a step: everything before it, and which step it is.
pub(super) fn step_digest(state: &State, step: StepId) -> Digest {
    let kind = match step.kind {
        StepKind::Llm => "llm",
        StepKind::Tool => "tool",
    };
    let mut chain = Chain::after(&state.digest);
    chain
        .part(kind.as_bytes())
        .part(&step.number.to_le_bytes())
        .digest()
}

pub(super) fn check(state: Box<State>, boundary: Boundary, then: Then) -> Step {
    Step::Check(Check::new(state, boundary, then))
}

fn ask(mut state: Box<State>, at: Timestamp) -> Step {
    let call = state.usage.model_calls.saturating_add(1);
    state.record(at, TraceKind::ModelRequested { call });
    Step::Model(NeedModel { state })
}

fn act(mut state: Box<State>, action: Action, at: Timestamp) -> Step {
    match action {
        Action::Final(result) => submit(state, result, at),
        Action::Call(call) if call.name == RESULT_TOOL => submit(state, submitted(call), at),
        Action::Call(call) => check(state, Boundary::BeforeTool, Then::Invoke(call)),
        Action::Batch(mut calls) => {
            if calls.len() == 1
                && let Some(call) = calls.pop()
            {
                return act(state, Action::Call(call), at);
            }
            for call in calls {
                if call.name == RESULT_TOOL {
                    state.finals.push_back(call);
                } else {
                    state.queue.push_back(call);
                }
            }
            advance(state, at)
        }
    }
}

fn submitted(call: ToolCall) -> FinalResult {
    FinalResult {
        id: Some(call.id),
        value: call.arguments,
    }
}

/// Judges a submitted result.
fn submit(mut state: Box<State>, result: FinalResult, at: Timestamp) -> Step {
    let error = match &result.value {
        Arguments::Json(value) => state
            .codec
            .check(value)
            .err()
            .map(|violations| explain(&violations)),
        Arguments::Malformed { reason, .. } => Some(malformed(reason)),
    };
    let then = match (error, result.value) {
        (None, Arguments::Json(value)) => Then::Accept(value),
        (error, arguments) => {
            let given = result.id.filter(|id| !id.is_empty());
            let call = ToolCall {
                id: given.unwrap_or_else(|| format!("final-{}", state.usage.model_calls)),
                name: RESULT_TOOL.to_owned(),
                arguments,
            };
            state.reject(call, error.unwrap_or_default(), at);
            Then::Correct
        }
    };
    check(state, Boundary::AfterResultValidation, then)
}

fn malformed(reason: &str) -> String {
    format!("The arguments are not valid JSON: {reason}")
}

fn accept(mut state: Box<State>, value: Value, at: Timestamp) -> Step {
    state.record(at, TraceKind::ResultProduced);
    state.end_turn();
    Step::Evidence(NeedEvidence {
        state,
        ending: Ending::Succeeded(value),
    })
}

/// After a refused result: goes on if another submission is allowed.
fn correct(state: Box<State>) -> Step {
    if state.retries_used_up() {
        return contract_broken(state);
    }
    next_round(state)
}

fn contract_broken(state: Box<State>) -> Step {
    let message = format!(
        "no valid result within {} retries",
        state.configured.limits.result_retries
    );
    exhausted(
        state,
        FailureKind::ResultContract,
        LimitKind::ResultRetries,
        message,
    )
}

/// Makes a call, or says in an observation why it was not made. The budget comes before the lookup.
fn invoke(mut state: Box<State>, mut call: ToolCall, at: Timestamp) -> Step {
    let limit = state.configured.limits.tool_calls;
    if state.usage.tool_calls >= limit {
        let message = format!("the limit of {limit} tool calls is used up");
        return exhausted(state, FailureKind::LimitExhausted, LimitKind::ToolCalls, message);
    }
    if call.id.is_empty() {
        call.id = format!(
            "call-{}-{}",
            state.usage.model_calls,
            state.turn.exchanges.len() + 1
        );
    }
    let refusal = match (state.tools.get(&call.name), &call.arguments) {
        (None, _) => format!("There is no tool named {:?}.", call.name),
        (Some(_), Arguments::Malformed { reason, .. }) => malformed(reason),
        (Some(&place), Arguments::Json(_)) => {
            state.usage.tool_calls += 1;
            let event = TraceKind::ToolStarted {
                tool: call.name.clone(),
                call_id: call.id.clone(),
            };
            state.record(at, event);
            return Step::Tool(NeedTool { state, call, place });
        }
    };
    let event = TraceKind::ToolDenied {
        tool: call.name.clone(),
        call_id: call.id.clone(),
        error: refusal.clone(),
    };
    state.record(at, event);
    state.answer(call, Observation::Error(refusal));
    advance(state, at)
}

/// The next call of the turn; then the refusal of results that came with it; then the next turn.
fn advance(mut state: Box<State>, at: Timestamp) -> Step {
    if let Some(call) = state.queue.pop_front() {
        return check(state, Boundary::BeforeTool, Then::Invoke(call));
    }
    while let Some(mut call) = state.finals.pop_front() {
        if call.id.is_empty() {
            call.id = format!(
                "call-{}-{}",
                state.usage.model_calls,
                state.turn.exchanges.len() + 1
            );
        }
        let error = "A result is submitted alone, after the other calls were answered.".to_owned();
        state.reject(call, error, at);
        if state.retries_used_up() {
            return contract_broken(state);
        }
    }
    next_round(state)
}

fn next_round(mut state: Box<State>) -> Step {
    state.end_turn();
    if state.usage.model_calls >= state.configured.limits.model_calls {
        check(state, Boundary::AfterLoop, Then::GiveUp)
    } else {
        check(state, Boundary::BeforeModel, Then::Ask)
    }
}

fn exhausted(state: Box<State>, kind: FailureKind, limit: LimitKind, message: String) -> Step {
    let failure = RunFailure {
        limit: Some(limit),
        ..RunFailure::new(kind, message)
    };
    NeedEvidence::failed(state, failure, None)
}

/// Names the step of a failure, unless the driver did.
fn at_step(failure: RunFailure, step: StepId) -> RunFailure {
    RunFailure {
        step_id: failure.step_id.or(Some(step)),
        ..failure
    }
}
