//! The real clock, the real randomness and the real runtime: the one module of the engine that may touch them.

use crate::ports::Spawner;
use portolan_core::{
    Fut,
    entropy::Entropy,
    time::{Clock, Timestamp},
};
use std::time::{Duration, Instant, SystemTime};

/// The clock of the machine, with tokio's timer.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Starts counting monotonic time now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that the ban points to"
    )]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that the ban points to"
    )]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        // Whole milliseconds: a moment is printed and read back in payloads and folds, and must come back the same.
        Timestamp(i64::try_from(since_epoch.as_millis()).map_or(i64::MAX, |ms| ms.saturating_mul(1_000)))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that the ban points to"
    )]
    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the timer that the ban points to"
    )]
    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// The randomness of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the source that the ban points to"
    )]
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("an operating system that gives no randomness cannot run a server");
    }
}

/// The runtime that the caller is in.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuntimeSpawner;

impl Spawner for RuntimeSpawner {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the spawner that the ban points to"
    )]
    fn spawn(&self, task: Fut<'static, ()>) {
        tokio::spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_survives_being_printed() {
        let now = SystemClock::new().now();
        assert_eq!(now.to_string().parse(), Ok(now));
    }
}
