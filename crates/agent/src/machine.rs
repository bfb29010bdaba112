//! The bounded loop as a machine without I/O.
//!
//! The machine is told what happened and says what has to happen next: judge a boundary, ask the model, invoke a tool,
//! collect the changed files. Each of its states owns the machine and offers exactly one consuming answer. It reads no
//! clock, random source, file or environment, so that the same answers always lead to the same requests, digests and
//! trace; a replay is nothing but giving the recorded answers again.

mod canon;
mod codec;
mod configured;
mod ending;
mod flow;
mod state;
mod states;

pub use codec::{ResultCodec, Violation};
pub use configured::{ConfigurationError, Configured};
pub use ending::{Done, Ending, NeedEvidence, Parts};
pub use flow::{MAX_BATCH, unusable};
pub use states::{Check, NeedModel, NeedTool, Step, Stop, Unanswered, Verdict};

use portolan_core::{
    time::Timestamp,
    trace::{Boundary, TraceKind},
};
use std::sync::Arc;

/// Starts an execution whose configuration was checked. The first boundary is `before_model`.
pub fn start(configured: Arc<Configured>, codec: Arc<dyn ResultCodec>, at: Timestamp) -> Check {
    let mut state = Box::new(state::State::new(configured, codec));
    let task = state.configured.task.clone();
    state.record(at, TraceKind::ExecutionStarted { task });
    Check::new(state, Boundary::BeforeModel, states::Then::Ask)
}

#[cfg(test)]
mod tests;
