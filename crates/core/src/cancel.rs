//! A switch that stops an execution from another thread or task.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

/// A cheap handle to one cancel switch. Once set it stays set.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    cancelled: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl CancelToken {
    /// A switch that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the switch and wakes whoever waits for it.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for waker in waiting {
            waker.wake();
        }
    }

    /// Whether the switch is set.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Completes when the switch is set.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled(self.clone())
    }
}

/// See [`CancelToken::cancelled`].
#[derive(Debug)]
pub struct Cancelled(CancelToken);

impl Future for Cancelled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0.is_cancelled() {
            return Poll::Ready(());
        }
        let mut waiting = self.0.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|waker| !waker.will_wake(context.waker()));
        waiting.push(context.waker().clone());
        drop(waiting);
        // The switch may have been set between the first look and the registration.
        if self.0.is_cancelled() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
