//! Wakes whoever follows a run within this process. The journal stays the truth: a signal that is missed is found by the
//! lookout, which one of the waiting readers keeps for all of them.

use crate::{
    row::{Head, RunRef},
    tail::lookout::Lookout,
};
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
pub struct Hub(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    runs: Mutex<HashMap<RunRef, watch::Sender<RunSignal>>>,
    lookout: Lookout,
}

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

    /// Announces what somebody saw in the store. Nobody is woken by what was announced before.
    pub fn seen(&self, head: &Head) {
        if let Some(sender) = self.runs().get(&head.at) {
            sender.send_if_modified(|signal| {
                let is_news = head.last_seq > signal.last_seq || (head.ended && !signal.ended);
                signal.last_seq = signal.last_seq.max(head.last_seq);
                signal.ended |= head.ended;
                is_news
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

    /// The runs that somebody follows and that are not known to have ended, in the order of their ids.
    pub fn followed(&self) -> Vec<RunRef> {
        let runs = self.runs();
        let live = runs
            .iter()
            .filter(|(_, sender)| sender.receiver_count() > 0 && !sender.borrow().ended);
        let mut live: Vec<RunRef> = live.map(|(run, _)| *run).collect();
        drop(runs);
        live.sort_unstable();
        live
    }

    pub(crate) fn lookout(&self) -> &Lookout {
        &self.0.lookout
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunRef, watch::Sender<RunSignal>>> {
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_core::ids::{RunId, TenantId};

    fn run(number: u8) -> RunRef {
        RunRef {
            tenant: TenantId::from_bytes([1; 16]),
            run: RunId::from_bytes([number; 16]),
        }
    }

    #[test]
    fn what_is_seen_again_wakes_nobody() {
        let hub = Hub::default();
        let mut signal = hub.follow(run(1));
        let head = |last_seq, ended| Head {
            at: run(1),
            last_seq: Seq(last_seq),
            ended,
        };
        let woken = [
            (head(3, false), true),
            (head(3, false), false),
            (head(2, false), false),
            (head(3, true), true),
            (head(3, true), false),
        ]
        .map(|(head, wakes)| {
            hub.seen(&head);
            let woken = signal.has_changed().expect("the hub is there");
            signal.mark_unchanged();
            (woken, wakes)
        });
        assert!(woken.iter().all(|(woken, wakes)| woken == wakes), "{woken:?}");
        assert_eq!(signal.borrow().last_seq, Seq(3), "a place never goes back");
    }

    #[test]
    fn only_live_runs_that_somebody_follows_are_looked_after() {
        let hub = Hub::default();
        let kept = [3, 1, 2].map(|number| hub.follow(run(number)));
        drop(hub.follow(run(4)));
        hub.committed(run(2), Seq(9), true);
        assert_eq!(hub.followed(), [run(1), run(3)]);
        drop(kept);
        assert_eq!(hub.followed(), []);
    }
}
