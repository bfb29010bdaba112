//! The embedded drivers: they give the machine what it asks for.
//!
//! There is one asynchronous core. The asynchronous driver is that core as a future; the blocking driver polls it on the
//! calling thread. Neither retries, and neither brings a runtime: a model or a tool that needs one brings its own.

pub(crate) mod asynchronous;
pub(crate) mod blocking;
mod output;
mod panic;

pub use output::{MAX_OUTPUT_BYTES, bound_output};
pub(crate) use panic::{caught, caught_now};

use crate::machine::Verdict;
use portolan_core::{
    cancel::CancelToken,
    manifest::Manifest,
    model::Model,
    time::{Clock, Timestamp},
    tool::Tool,
    trace::Boundary,
    workspace::Workspace,
};

/// Is told about each boundary just before it is judged, with the number of that check.
pub(crate) type AtBoundary<'a> = dyn Fn(Boundary, u64) + Send + Sync + 'a;

/// What an execution may touch.
pub(crate) struct World<'a> {
    pub(crate) model: &'a dyn Model,
    /// In the order of the configured specifications.
    pub(crate) tools: Vec<&'a dyn Tool>,
    pub(crate) workspace: Option<&'a dyn Workspace>,
    /// What the workspace held during configuration.
    pub(crate) baseline: Option<Manifest>,
    pub(crate) cancel: &'a CancelToken,
    pub(crate) clock: &'a dyn Clock,
    /// The moment of the monotonic clock from which on the wall time is used up.
    pub(crate) deadline_us: Option<u64>,
    pub(crate) at_boundary: Option<&'a AtBoundary<'a>>,
}

impl World<'_> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Judges a boundary: cancel first, then the time.
    fn judge(&self, boundary: Boundary, ordinal: u64) -> Verdict {
        if let Some(tell) = self.at_boundary {
            tell(boundary, ordinal);
        }
        if self.cancel.is_cancelled() {
            return Verdict::Cancelled;
        }
        match self.deadline_us {
            Some(deadline) if self.clock.monotonic_us() >= deadline => Verdict::OutOfTime,
            Some(_) | None => Verdict::Go,
        }
    }
}
