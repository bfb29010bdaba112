//! Active time: what counts against a run's wall time.
//!
//! Queued time, waiting and pauses between attempts do not count, and a crash forgives at most what passed since the last
//! append or lease renewal.

use portolan_core::time::Clock;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The active time of one run under one owner. Clones share it.
#[derive(Debug, Clone)]
pub struct ActiveTime {
    clock: Arc<dyn Clock>,
    /// What earlier owners used, in microseconds.
    base_us: u64,
    /// When this owner began, minus all pauses: moved forward by each pause.
    began_us: Arc<AtomicU64>,
}

impl ActiveTime {
    /// Goes on from what earlier owners used.
    pub fn resume(clock: Arc<dyn Clock>, used_ms: u64) -> Self {
        let began_us = Arc::new(AtomicU64::new(clock.monotonic_us()));
        Self {
            clock,
            base_us: used_ms.saturating_mul(1_000),
            began_us,
        }
    }

    /// Used so far, in whole milliseconds.
    pub fn used_ms(&self) -> u64 {
        self.used_us() / 1_000
    }

    fn used_us(&self) -> u64 {
        let now = self.clock.monotonic_us();
        self.base_us
            .saturating_add(now.saturating_sub(self.began_us.load(Ordering::Relaxed)))
    }

    /// What is left of a wall time, rounded up to a millisecond; zero when it is used up.
    pub fn left_ms(&self, wall_time_ms: u64) -> u64 {
        wall_time_ms
            .saturating_mul(1_000)
            .saturating_sub(self.used_us())
            .div_ceil(1_000)
    }

    /// Takes a pause that began at that monotonic moment out of the count.
    pub fn forgive_since(&self, pause_began_us: u64) {
        let pause = self.clock.monotonic_us().saturating_sub(pause_began_us);
        self.began_us.fetch_add(pause, Ordering::Relaxed);
    }
}
