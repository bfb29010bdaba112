//! The real clock, which a test may put forward.

use portolan_core::{
    Fut,
    time::{Clock, Timestamp},
};
use portolan_engine::ambient::SystemClock;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct FakeClock {
    real: SystemClock,
    ahead_ms: AtomicU64,
}

impl FakeClock {
    pub(crate) fn advance_ms(&self, ms: u64) {
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        self.real.now().plus_ms(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn monotonic_us(&self) -> u64 {
        self.real.monotonic_us() + self.ahead_ms.load(Ordering::SeqCst) * 1_000
    }

    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()> {
        self.real.sleep_ms(ms)
    }
}
