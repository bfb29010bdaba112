//! Failpoints of tests that run in this process: nobody dies in it, and nobody waits by a real clock.

use portolan_core::{Fut, faults::Hook};

/// A hook for plans that only pretend or hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct InProcess;

impl Hook for InProcess {
    fn sleep_ms(&self, _ms: u64) -> Fut<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn sleep_ms_blocking(&self, _ms: u64) {}

    fn fired(&self, _point: &'static str) {}

    fn die(&self) {
        panic!("a test process does not die for itself");
    }
}
