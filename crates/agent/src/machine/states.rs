//! The states: each owns the machine and offers exactly one answer, so that a wrong answer does not compile.

use super::{
    configured::Configured,
    ending::{Done, NeedEvidence},
    flow,
    state::State,
};
use portolan_core::{
    call::{Action, Arguments, ToolCall, Turn},
    digest::Digest,
    failure::RunFailure,
    ids::StepId,
    model::{ModelReply, ModelRequest},
    time::Timestamp,
    tool::ToolError,
    trace::{Boundary, TraceEvent},
    usage::LoopUsage,
};
use serde_json::Value;

/// What has to happen next.
#[derive(Debug)]
pub enum Step {
    /// Judge cancel and wall time.
    Check(Check),
    /// Ask the model.
    Model(NeedModel),
    /// Invoke a tool.
    Tool(NeedTool),
    /// Collect the changed files.
    Evidence(NeedEvidence),
    /// Nothing: the execution has ended.
    Done(Done),
}

/// What a boundary check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Go,
    /// The execution is cancelled. It is looked at before the time.
    Cancelled,
    /// The wall time is used up.
    OutOfTime,
}

/// Why an effect in flight was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The execution is cancelled.
    Cancelled,
    /// The wall time is used up.
    OutOfTime,
}

/// Why an effect has no answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Unanswered {
    /// The driver gave it up. It ends the execution as if the boundary check after the effect had found this.
    Aborted(Stop),
    /// A bound of the driver refused it before it began. It ends the execution at once and leaves no sign of the effect
    /// in trace and usage.
    Refused(RunFailure),
    /// It failed for good. It ends the execution after the boundary check that follows the effect.
    Failed(RunFailure),
}

/// What follows a boundary check that lets the execution go on.
#[derive(Debug)]
pub(super) enum Then {
    Ask,
    Act(Action),
    Invoke(ToolCall),
    Advance,
    Accept(Value),
    Correct,
    Fail(RunFailure),
    GiveUp,
}

/// A boundary: cancel and wall time have to be judged.
#[derive(Debug)]
#[must_use]
pub struct Check {
    pub(super) state: Box<State>,
    pub(super) boundary: Boundary,
    pub(super) then: Then,
}

impl Check {
    /// Takes note of one more check.
    pub(super) fn new(mut state: Box<State>, boundary: Boundary, then: Then) -> Self {
        state.checks += 1;
        Self {
            state,
            boundary,
            then,
        }
    }

    /// Where the loop stands.
    pub const fn boundary(&self) -> Boundary {
        self.boundary
    }

    /// The number of this check within the execution, from 1.
    pub fn ordinal(&self) -> u64 {
        self.state.checks
    }

    /// Says what was found.
    pub fn verdict(self, verdict: Verdict, at: Timestamp) -> Step {
        match verdict {
            Verdict::Go => flow::go_on(self, at),
            Verdict::Cancelled => flow::stop(self, Stop::Cancelled),
            Verdict::OutOfTime => flow::stop(self, Stop::OutOfTime),
        }
    }
}

/// The model has to be asked.
#[derive(Debug)]
#[must_use]
pub struct NeedModel {
    pub(super) state: Box<State>,
}

impl NeedModel {
    /// The step.
    pub fn step(&self) -> StepId {
        StepId::llm(self.state.usage.model_calls.saturating_add(1))
    }

    /// What the model may know. It borrows the history.
    pub fn request(&self) -> ModelRequest<'_> {
        let configured = &*self.state.configured;
        ModelRequest {
            execution_id: configured.execution_id,
            task: &configured.task,
            context: &configured.context,
            instructions: &configured.instructions,
            tools: &configured.tools,
            result_schema: &configured.result_schema,
            history: &self.state.history,
            max_output_tokens: configured.max_output_tokens,
        }
    }

    /// The digest of the request: chained over what was configured, answered and observed.
    pub fn digest(&self) -> Digest {
        flow::step_digest(&self.state, self.step())
    }

    /// Says what the model answered, or why it did not.
    pub fn reply(self, reply: Result<ModelReply, Unanswered>, at: Timestamp) -> Step {
        flow::replied(self, reply, at)
    }
}

/// A tool has to be invoked: its name is known, its arguments are JSON, the budget allows it.
#[derive(Debug)]
#[must_use]
pub struct NeedTool {
    pub(super) state: Box<State>,
    pub(super) call: ToolCall,
    pub(super) place: usize,
}

impl NeedTool {
    /// The step.
    pub fn step(&self) -> StepId {
        // The invocation is counted when it starts, which is now.
        StepId::tool(self.state.usage.tool_calls)
    }

    /// The call.
    pub const fn call(&self) -> &ToolCall {
        &self.call
    }

    /// The tool's place in the configured list.
    pub const fn place(&self) -> usize {
        self.place
    }

    /// The arguments.
    pub const fn arguments(&self) -> &Value {
        match &self.call.arguments {
            Arguments::Json(value) => value,
            Arguments::Malformed { .. } => &Value::Null,
        }
    }

    /// The digest of the invocation, chained like that of a request.
    pub fn digest(&self) -> Digest {
        flow::step_digest(&self.state, self.step())
    }

    /// Says what came of the invocation, or why it has no outcome.
    pub fn outcome(self, outcome: Result<Result<Value, ToolError>, Unanswered>, at: Timestamp) -> Step {
        flow::invoked(self, outcome, at)
    }
}

macro_rules! observable {
    ($($state:ty),*) => {$(
        impl $state {
            /// What happened so far.
            pub fn trace(&self) -> &[TraceEvent] {
                &self.state.trace
            }

            /// What was counted so far.
            pub fn usage(&self) -> LoopUsage {
                self.state.usage
            }

            /// What the execution is bound to.
            pub fn configured(&self) -> &Configured {
                &self.state.configured
            }

            /// The closed turns so far.
            pub fn history(&self) -> &[Turn] {
                &self.state.history
            }
        }
    )*};
}

observable!(Check, NeedModel, NeedTool, NeedEvidence, Done);

impl Step {
    /// What happened so far.
    pub fn trace(&self) -> &[TraceEvent] {
        match self {
            Self::Check(state) => state.trace(),
            Self::Model(state) => state.trace(),
            Self::Tool(state) => state.trace(),
            Self::Evidence(state) => state.trace(),
            Self::Done(state) => state.trace(),
        }
    }

    /// What was counted so far.
    pub fn usage(&self) -> LoopUsage {
        match self {
            Self::Check(state) => state.usage(),
            Self::Model(state) => state.usage(),
            Self::Tool(state) => state.usage(),
            Self::Evidence(state) => state.usage(),
            Self::Done(state) => state.usage(),
        }
    }
}
