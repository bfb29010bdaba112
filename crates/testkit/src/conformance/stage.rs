//! One scenario, ready to run: its model, its clock, its cancel switch and what happens at its boundaries.

use super::{
    files::Layout,
    observed::Observed,
    scenario::{CallPart, RawLimits, Scenario, ScriptStep},
};
use crate::clock::VirtualClock;
use portolan_agent::scripted::RecordedRequest;
use portolan_core::{
    Fut,
    call::{Action, Arguments, FinalResult, ToolCall},
    cancel::CancelToken,
    ids::IdempotencyKey,
    limits::Limits,
    model::{Model, ModelError, ModelFailure, ModelReply, ModelRequest},
    trace::Boundary,
};
use std::{
    cell::Cell,
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A scenario that is ready to run. Each run needs its own.
#[derive(Debug)]
pub struct Stage {
    /// The scenario.
    pub scenario: Scenario,
    /// Its clock.
    pub clock: VirtualClock,
    /// Its cancel switch.
    pub cancel: CancelToken,
    /// Its folders.
    pub layout: Arc<Layout>,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    checked: Arc<Mutex<HashMap<Boundary, u64>>>,
}

impl Stage {
    /// Lays out the files of a scenario.
    pub fn new(scenario: Scenario) -> io::Result<Self> {
        let layout = Arc::new(Layout::new(&scenario)?);
        let cancel = CancelToken::new();
        if scenario.cancel_before_start {
            cancel.cancel();
        }
        Ok(Self {
            scenario,
            clock: VirtualClock::new(),
            cancel,
            layout,
            requests: Arc::default(),
            checked: Arc::default(),
        })
    }

    /// The bounds, or why there can be none like these.
    pub fn limits(&self) -> Result<Limits, String> {
        let RawLimits {
            model_calls,
            tool_calls,
            result_retries,
            wall_time_ms,
        } = self.scenario.limits;
        let count = |n: i64| u32::try_from(n).map_err(|_| format!("{n} is no count"));
        let wall_time_ms = wall_time_ms.map(u64::try_from).transpose();
        let limits = Limits {
            model_calls: count(model_calls)?,
            tool_calls: count(tool_calls)?,
            result_retries: count(result_retries)?,
            wall_time_ms: wall_time_ms.map_err(|_| "a negative wall time".to_owned())?,
        };
        limits
            .refusal()
            .map_or(Ok(limits), |refusal| Err(refusal.to_owned()))
    }

    /// The model, which follows the script.
    pub fn model(&self) -> ScriptModel {
        ScriptModel {
            script: self.scenario.script.clone(),
            effects: self.effects(),
            requests: Arc::clone(&self.requests),
        }
    }

    /// What may happen as a side effect.
    pub(super) fn effects(&self) -> Effects {
        Effects {
            clock: self.clock.clone(),
            cancel: self.cancel.clone(),
        }
    }

    /// Lets happen what happens just before a boundary is checked.
    pub fn before_boundary(&self, boundary: Boundary) {
        let occurrence = {
            let mut checked = locked(&self.checked);
            let count = checked.entry(boundary).or_insert(0);
            *count += 1;
            *count
        };
        self.at_occurrence(boundary, occurrence);
    }

    /// Lets happen what happens before the n-th check of a boundary.
    pub(super) fn at_occurrence(&self, boundary: Boundary, occurrence: u64) {
        for hook in &self.scenario.boundary_hooks {
            if hook.boundary == boundary && hook.occurrence == occurrence {
                self.effects().happen(hook.cancel, hook.advance_clock_ms);
            }
        }
    }

    /// Another handle to this stage.
    pub(super) fn share(&self) -> Self {
        Self {
            scenario: self.scenario.clone(),
            clock: self.clock.clone(),
            cancel: self.cancel.clone(),
            layout: Arc::clone(&self.layout),
            requests: Arc::clone(&self.requests),
            checked: Arc::clone(&self.checked),
        }
    }

    /// What the model was asked so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        locked(&self.requests).clone()
    }

    /// Adds the requests and the files at the end to what a backend says.
    pub fn complete(&self, observed: Observed) -> Observed {
        Observed {
            requests: self.requests(),
            outside_after: self.layout.outside_after(),
            workspace_after: observed.workspace_after.or_else(|| self.layout.directory_after()),
            ..observed
        }
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Side effects of the script.
#[derive(Debug, Clone)]
pub(super) struct Effects {
    clock: VirtualClock,
    cancel: CancelToken,
}

impl Effects {
    pub(super) fn happen(&self, cancel: bool, advance_clock_ms: u64) {
        if cancel {
            self.cancel.cancel();
        }
        self.clock.advance_ms(advance_clock_ms);
    }
}

/// The model of a scenario. Which step of the script answers depends on the history alone, so that a request that is sent
/// again is answered alike.
#[derive(Debug)]
pub struct ScriptModel {
    script: Vec<ScriptStep>,
    effects: Effects,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Model for ScriptModel {
    fn call<'a>(
        &'a self,
        key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            locked(&self.requests).push(RecordedRequest::of(key, request));
            match self.script.get(request.history.len()) {
                Some(step) => self.follow(step),
                None => Err(ModelError::new(ModelFailure::Refused, "the script has ended")),
            }
        })
    }
}

impl ScriptModel {
    fn follow(&self, step: &ScriptStep) -> Result<ModelReply, ModelError> {
        self.effects.happen(step.cancel, step.advance_clock_ms);
        if let Some(message) = &step.provider_panic {
            panic_as_scripted(message);
        }
        let action = match (&step.tool_call, &step.batch, &step.result, &step.provider_error) {
            (Some(call), None, None, None) => Action::Call(tool_call(call)),
            (None, Some(calls), None, None) => Action::Batch(calls.iter().map(tool_call).collect()),
            (None, None, Some(result), None) => Action::Final(FinalResult {
                id: result.id.clone(),
                value: Arguments::Json(result.value.clone()),
            }),
            (None, None, None, Some(message)) => {
                return Err(ModelError::new(ModelFailure::Refused, message.clone()));
            }
            _ => {
                return Err(ModelError::new(
                    ModelFailure::Panicked,
                    "the script step says not one thing",
                ));
            }
        };
        Ok(ModelReply::new(action))
    }
}

fn tool_call(part: &CallPart) -> ToolCall {
    ToolCall {
        id: part.id.clone(),
        name: part.name.clone(),
        arguments: Arguments::Json(part.arguments.clone()),
    }
}

thread_local! {
    static SCRIPTED: Cell<bool> = const { Cell::new(false) };
}

/// Panics because the script says so.
#[expect(clippy::panic, reason = "the scenario asks for a panic")]
pub(super) fn panic_as_scripted(message: &str) -> ! {
    SCRIPTED.set(true);
    panic!("{message}");
}

/// Keeps panics that a script asks for out of the output; others are reported as ever.
pub fn expect_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !SCRIPTED.replace(false) {
            usual(info);
        }
    }));
}
