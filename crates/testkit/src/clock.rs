//! A clock that moves only when a test moves it.

use portolan_core::{
    Fut,
    time::{Clock, Timestamp},
};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// Virtual time. Clones share it. Sleeps end when it is moved past them, and never on their own.
#[derive(Debug, Clone, Default)]
pub struct VirtualClock(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    now_us: u64,
    sleepers: Vec<(u64, Waker)>,
}

/// The wall clock of virtual time zero: 2026-01-01T00:00:00Z.
const ORIGIN: Timestamp = Timestamp(1_767_225_600_000_000);

impl VirtualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves time forward.
    pub fn advance_ms(&self, ms: u64) {
        let mut state = self.state();
        state.now_us += ms * 1_000;
        let now_us = state.now_us;
        let (due, later) = std::mem::take(&mut state.sleepers)
            .into_iter()
            .partition(|(at, _)| *at <= now_us);
        state.sleepers = later;
        drop(state);
        let due: Vec<(u64, Waker)> = due;
        for (_, waker) in due {
            waker.wake();
        }
    }

    /// Moves time to the next sleeper, if there is one.
    pub fn advance_to_next_sleeper(&self) -> bool {
        let state = self.state();
        let next = state.sleepers.iter().map(|(at, _)| *at).min();
        let now_us = state.now_us;
        drop(state);
        match next {
            Some(at) => {
                self.advance_ms(at.saturating_sub(now_us).div_ceil(1_000));
                true
            }
            None => false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(ORIGIN.0.saturating_add_unsigned(self.state().now_us))
    }

    fn monotonic_us(&self) -> u64 {
        self.state().now_us
    }

    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()> {
        let until_us = self.state().now_us.saturating_add(ms.saturating_mul(1_000));
        Box::pin(Sleep {
            clock: self.clone(),
            until_us,
        })
    }
}

struct Sleep {
    clock: VirtualClock,
    until_us: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.state();
        if state.now_us >= self.until_us {
            return Poll::Ready(());
        }
        let entry = (self.until_us, context.waker().clone());
        state.sleepers.push(entry);
        Poll::Pending
    }
}
