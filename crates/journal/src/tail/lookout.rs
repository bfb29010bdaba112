//! The poll behind the hint: one of the readers that wait looks at the store for all of them.
//!
//! A hint may be lost, on its way from another process above all, so somebody must look. If every reader looked for itself,
//! ten thousand silent readers would ask the store five thousand questions a second. Here whoever waits queues for the
//! lookout; its holder asks for the heads of all followed runs at once and announces what is new to the hub. A holder that is
//! woken or dropped leaves the lookout to the next in the queue, with the round where it was. There is no task to start and
//! none to join.

use crate::{hub::Hub, row::RunRef, store::JournalStore};
use portolan_core::time::Clock;
use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
};
use tokio::sync::Mutex;

/// Runs whose heads are asked for at once.
const CHUNK: usize = 256;

/// Whose turn it is, and what is left of the round.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    round: Mutex<Round>,
    /// When the last round that failed nowhere began, in microseconds.
    looked_us: AtomicU64,
}

#[derive(Debug, Default)]
struct Round {
    /// Runs that are still to be looked at.
    left: Vec<RunRef>,
    began_us: u64,
    failed: bool,
    /// When the next round begins.
    next_us: u64,
}

impl Lookout {
    /// Whether nobody has looked for so long that a reader must look for itself: the store did not answer, or the reader whose
    /// turn it is does not get on.
    pub(crate) fn is_overdue(&self, now_us: u64, poll_ms: u64) -> bool {
        let looked_us = self.looked_us.load(Ordering::Acquire);
        now_us.saturating_sub(looked_us) > poll_ms.saturating_mul(3_000)
    }

    /// Waits for its turn and looks every `poll_ms` from then on. It may be dropped at any moment.
    pub(crate) async fn keep(
        &self,
        hub: &Hub,
        journal: &dyn JournalStore,
        clock: &dyn Clock,
        poll_ms: u64,
    ) -> Infallible {
        let mut round = self.round.lock().await;
        loop {
            if round.left.is_empty() {
                let now_us = clock.monotonic_us();
                if now_us < round.next_us {
                    clock.sleep_ms((round.next_us - now_us).div_ceil(1_000)).await;
                }
                let now_us = clock.monotonic_us();
                *round = Round {
                    left: hub.followed(),
                    began_us: now_us,
                    failed: false,
                    next_us: now_us.saturating_add(poll_ms.saturating_mul(1_000)),
                };
            }
            self.go_on(&mut round, hub, journal).await;
        }
    }

    async fn go_on(&self, round: &mut Round, hub: &Hub, journal: &dyn JournalStore) {
        let rest = round.left.len().saturating_sub(CHUNK);
        if let Some(chunk) = round.left.get(rest..).filter(|chunk| !chunk.is_empty()) {
            // An answer that never came is asked for again by the next holder.
            match journal.heads(chunk.to_vec()).await {
                Ok(heads) => heads.iter().for_each(|head| hub.seen(head)),
                Err(_) => round.failed = true,
            }
            round.left.truncate(rest);
        }
        if round.left.is_empty() && !round.failed {
            self.looked_us.store(round.began_us, Ordering::Release);
        }
    }
}
