//! Wakes whoever follows a run within this process. The journal stays the truth: a reader that misses a signal polls.

use crate::row::RunRef;
use portolan_core::ids::Seq;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// What is known about a run without asking the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSignal {
    /// The last committed place that was announced.
    pub last_seq: Seq,
    /// Whether the run has ended.
    pub ended: bool,
    /// Raised with every command.
    pub commands: u64,
}

/// A cheap handle to the signals of all followed runs.
#[derive(Debug, Clone, Default)]
pub struct Hub(Arc<Mutex<HashMap<RunRef, watch::Sender<RunSignal>>>>);

impl Hub {
    /// Follows a run. The first value is what was announced last, or nothing.
    pub fn follow(&self, run: RunRef) -> watch::Receiver<RunSignal> {
        let mut runs = self.runs();
        runs.entry(run)
            .or_insert_with(|| watch::Sender::new(RunSignal::default()))
            .subscribe()
    }

    /// Announces a commit. Runs that nobody follows cost a look-up.
    pub fn committed(&self, run: RunRef, last_seq: Seq, ended: bool) {
        let mut runs = self.runs();
        if let Some(sender) = runs.get(&run) {
            if sender.receiver_count() == 0 {
                runs.remove(&run);
                return;
            }
            sender.send_modify(|signal| {
                signal.last_seq = signal.last_seq.max(last_seq);
                signal.ended |= ended;
            });
        }
    }

    /// Announces a command.
    pub fn commanded(&self, run: RunRef) {
        if let Some(sender) = self.runs().get(&run) {
            sender.send_modify(|signal| signal.commands += 1);
        }
    }

    /// Forgets runs that nobody follows any more. Called by the sweep, so that memory follows what is followed.
    pub fn forget_unfollowed(&self) {
        self.runs().retain(|_, sender| sender.receiver_count() > 0);
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunRef, watch::Sender<RunSignal>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
