//! Simulated time: it moves only to the next timer, and each process has a wall clock of its own.

use portolan_core::{
    Fut,
    time::{Clock, Timestamp},
};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll, Waker},
};

/// The wall clock of the beginning: 2026-01-01T00:00:00Z.
const ORIGIN: Timestamp = Timestamp(1_767_225_600_000_000);

/// The time that all share.
#[derive(Debug, Clone, Default)]
pub(super) struct Time(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    now_us: u64,
    /// Timers by the moment they are due and the order in which they were set.
    timers: BTreeMap<(u64, u64), Waker>,
    set: u64,
}

impl Time {
    pub(super) fn now_us(&self) -> u64 {
        self.state().now_us
    }

    /// Goes to the next timer and wakes whoever waits for that moment. False if nobody waits.
    pub(super) fn go_on(&self) -> bool {
        let mut state = self.state();
        let Some(((due, _), _)) = state.timers.first_key_value() else {
            return false;
        };
        state.now_us = state.now_us.max(*due);
        let first_later = (state.now_us + 1, 0);
        let later = state.timers.split_off(&first_later);
        let due = std::mem::replace(&mut state.timers, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
        true
    }

    pub(super) fn sleep_us(&self, us: u64) -> Sleep {
        Sleep {
            time: self.clone(),
            until_us: self.now_us().saturating_add(us),
            place: None,
        }
    }

    pub(super) fn sleep_ms(&self, ms: u64) -> Sleep {
        self.sleep_us(ms.saturating_mul(1_000))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A timer.
#[derive(Debug)]
pub(super) struct Sleep {
    time: Time,
    until_us: u64,
    place: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.time.state();
        if state.now_us >= self.until_us {
            return Poll::Ready(());
        }
        let place = self.place.unwrap_or_else(|| {
            state.set += 1;
            (self.until_us, state.set)
        });
        state.timers.insert(place, context.waker().clone());
        drop(state);
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.time.state().timers.remove(&place);
        }
    }
}

/// The clock of one process: its wall clock may be wrong, its monotonic one is not.
#[derive(Debug, Clone)]
pub(super) struct ProcessClock {
    pub(super) time: Time,
    /// How far its wall clock is off, in microseconds.
    pub(super) skew_us: Arc<AtomicI64>,
}

impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        // Whole milliseconds, like the real one.
        let ms = self.time.now_us() / 1_000;
        let skew = self.skew_us.load(Ordering::Relaxed);
        Timestamp(ORIGIN.0.saturating_add_unsigned(ms * 1_000).saturating_add(skew))
    }

    fn monotonic_us(&self) -> u64 {
        self.time.now_us()
    }

    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()> {
        Box::pin(self.time.sleep_ms(ms))
    }
}
