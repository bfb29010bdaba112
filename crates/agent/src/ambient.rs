//! The world as it is: the system clock, the randomness of the operating system, and files that instructions name.
//!
//! This module owns every such access of the crate. Everything else takes the ports, so that a test can replace them.

use portolan_core::{
    Fut,
    entropy::Entropy,
    time::{Clock, Timestamp},
};
use std::{
    future::Future,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// When this process first looked at the clock; monotonic time is measured from there.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that everything else takes as a port"
)]
fn instant() -> Instant {
    Instant::now()
}

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everything else takes as a port"
    )]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic_us(&self) -> u64 {
        let origin = *ORIGIN.get_or_init(instant);
        u64::try_from(instant().saturating_duration_since(origin).as_micros()).unwrap_or(u64::MAX)
    }

    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()> {
        Box::pin(ThreadSleep { ms, shared: None })
    }
}

/// A wait that needs no runtime: a thread of its own sleeps. Nothing in this crate waits; whoever waits often brings a
/// clock with a timer.
struct ThreadSleep {
    ms: u64,
    shared: Option<Arc<Mutex<Sleeping>>>,
}

struct Sleeping {
    over: bool,
    waker: Waker,
}

impl Future for ThreadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(shared) = &self.shared {
            let mut sleeping = shared.lock().unwrap_or_else(PoisonError::into_inner);
            sleeping.waker.clone_from(context.waker());
            return if sleeping.over {
                Poll::Ready(())
            } else {
                Poll::Pending
            };
        }
        let shared = Arc::new(Mutex::new(Sleeping {
            over: false,
            waker: context.waker().clone(),
        }));
        start_sleeper(self.ms, Arc::clone(&shared));
        self.shared = Some(shared);
        Poll::Pending
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "without a runtime, waiting needs a thread; it ends by itself and holds nothing that must be joined"
)]
fn start_sleeper(ms: u64, shared: Arc<Mutex<Sleeping>>) {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(ms));
        let mut sleeping = shared.lock().unwrap_or_else(PoisonError::into_inner);
        sleeping.over = true;
        sleeping.waker.wake_by_ref();
    });
}

/// The randomness of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the entropy that everything else takes as a port"
    )]
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system gives random bytes");
    }
}

/// Reads a file that an instruction names. The program that embeds the loop chose the path, not a model.
#[expect(
    clippy::disallowed_methods,
    reason = "the path comes from the embedding program, which may read whatever it likes"
)]
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_goes_back() {
        let first = SystemClock.monotonic_us();
        assert!(SystemClock.monotonic_us() >= first);
    }

    #[test]
    fn entropy_is_not_constant() {
        let (mut a, mut b) = ([0_u8; 16], [0_u8; 16]);
        SystemEntropy.fill(&mut a);
        SystemEntropy.fill(&mut b);
        assert_ne!(a, b);
    }

    #[test]
    fn a_wait_without_a_runtime_ends() {
        crate::driver::blocking::wait(SystemClock.sleep_ms(1));
    }
}
