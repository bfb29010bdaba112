//! A reader of a journal that goes on where it is, waits at the end, and stops after the terminal event.
//!
//! It reads, so it shows only what was committed; it counts, so it shows each event once and in order; and it ends with the
//! terminal event, never with a status. What wakes it is a hint: it notes the hint before it reads, so that a commit in
//! between is not slept through, and without any hint the lookout finds what is new. It holds one page of bounded size, and
//! nothing while it waits.
//!
//! How an item becomes bytes, who may read and when a server goes away is not its business.

pub(crate) mod lookout;

use crate::{
    faulty,
    hub::RunSignal,
    row::RunRef,
    store::{JournalError, JournalStore},
};
use portolan_core::{
    event::{Recorded, is_terminal_kind},
    faults::{self, Plant, Point, planted},
    ids::Seq,
    time::Clock,
};
use std::{fmt, sync::Arc, vec};
use tokio::sync::watch;

/// The most events of a page.
const PAGE_EVENTS: u32 = 64;
/// The most bytes of a page of more than one event.
const PAGE_BYTES: usize = 64 * 1024;

/// How often a tail says something, and how often somebody looks whether there is something to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailTimes {
    /// The longest silence, in milliseconds.
    pub heartbeat_ms: u64,
    /// Between two looks at the store without a hint, in milliseconds.
    pub poll_ms: u64,
}

/// What a reader is told.
#[derive(Debug, Clone)]
pub enum TailItem {
    /// The next event.
    Event(Recorded),
    /// Nothing happened for the longest silence.
    HeartbeatDue,
    /// The run's last event was told before this.
    Ended,
    /// The journal cannot be read now. Whoever asks again, or follows again after the last event, misses nothing.
    ComeAgain(JournalError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There may be more in the store.
    Reading,
    /// Everything was read when the store was last asked.
    Waiting,
    /// The terminal event was told.
    Ended,
}

/// A tail of one run.
pub struct Tail {
    journal: Arc<dyn JournalStore>,
    clock: Arc<dyn Clock>,
    times: TailTimes,
    run: RunRef,
    /// The place of the event that was told last.
    after: Seq,
    page: vec::IntoIter<Recorded>,
    signal: watch::Receiver<RunSignal>,
    commands_seen: u64,
    /// On the monotonic clock, in microseconds.
    heartbeat_us: u64,
    state: State,
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail")
            .field("run", &self.run)
            .field("after", &self.after)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Tail {
    /// Follows a run strictly after a place.
    pub fn new(
        journal: Arc<dyn JournalStore>,
        clock: Arc<dyn Clock>,
        run: RunRef,
        after: Seq,
        times: TailTimes,
    ) -> Self {
        let signal = journal.hub().follow(run);
        let mut tail = Self {
            journal,
            clock,
            times,
            run,
            after,
            page: Vec::new().into_iter(),
            signal,
            commands_seen: 0,
            heartbeat_us: 0,
            state: State::Reading,
        };
        tail.put_off_heartbeat();
        tail
    }

    /// The place of the event that was told last.
    pub const fn after(&self) -> Seq {
        self.after
    }

    /// What is told next. A call that is dropped loses nothing.
    pub async fn next(&mut self) -> TailItem {
        loop {
            match self.state {
                State::Ended => return TailItem::Ended,
                State::Reading => match self.event().await {
                    Ok(Some(event)) => return TailItem::Event(event),
                    Ok(None) => {
                        if faults::at(Point::StreamSeam).await.is_some() {
                            return TailItem::ComeAgain(faulty::not_committed());
                        }
                        if planted(Plant::GapAtTheSeam) {
                            self.after = self.after.max(self.signal.borrow().last_seq);
                        }
                        self.state = State::Waiting;
                    }
                    Err(error) => return TailItem::ComeAgain(error),
                },
                State::Waiting if self.has_everything() => self.state = State::Ended,
                State::Waiting => {
                    if self.wait().await {
                        self.put_off_heartbeat();
                        return TailItem::HeartbeatDue;
                    }
                }
            }
        }
    }

    /// The next event that is there.
    async fn event(&mut self) -> Result<Option<Recorded>, JournalError> {
        if self.page.len() == 0 {
            // Noted before the page is read, so that a commit in between wakes the wait.
            self.commands_seen = self.signal.borrow_and_update().commands;
            let page = self
                .journal
                .read_page(self.run, self.after, PAGE_EVENTS, PAGE_BYTES)
                .await?;
            self.page = page.into_iter();
        }
        let Some(event) = self.page.next() else {
            return Ok(None);
        };
        if event.seq != self.after.next() {
            let what = format!(
                "{} follows {} in the journal of {}",
                event.seq.0, self.after.0, self.run.run
            );
            return Err(JournalError::Corrupt(what));
        }
        self.after = event.seq;
        if self.page.len() == 0 {
            self.page = Vec::new().into_iter();
        }
        if is_terminal_kind(&event.kind) {
            self.state = State::Ended;
        }
        self.put_off_heartbeat();
        Ok(Some(event))
    }

    /// Whether the run has ended and its last event was told before: a reader may follow strictly after it.
    fn has_everything(&self) -> bool {
        let signal = *self.signal.borrow();
        signal.ended && (signal.last_seq <= self.after || planted(Plant::EndsByStatus))
    }

    /// Waits until there may be more, or until a heartbeat is due: true.
    async fn wait(&mut self) -> bool {
        let now_us = self.clock.monotonic_us();
        let poll_ms = self.times.poll_ms;
        if now_us >= self.heartbeat_us && planted(Plant::SilenceUntold) {
            self.put_off_heartbeat();
        }
        if now_us >= self.heartbeat_us {
            if self.journal.hub().lookout().is_overdue(now_us, poll_ms) {
                self.state = State::Reading;
            }
            return true;
        }
        let silence = self.clock.sleep_ms((self.heartbeat_us - now_us).div_ceil(1_000));
        let hub = self.journal.hub();
        // In this order where several are ready: what is new goes before what says that nothing is.
        tokio::select! {
            biased;
            () = news(&mut self.signal, self.after, self.commands_seen) => self.state = State::Reading,
            () = silence => {}
            never = hub.lookout().keep(hub, &*self.journal, &*self.clock, poll_ms) => match never {},
        }
        false
    }

    fn put_off_heartbeat(&mut self) {
        let silence_us = self.times.heartbeat_ms.saturating_mul(1_000);
        self.heartbeat_us = self.clock.monotonic_us().saturating_add(silence_us);
    }
}

/// Completes when there may be more than was read. A commit that the reader saw before it was announced is no news.
async fn news(signal: &mut watch::Receiver<RunSignal>, after: Seq, commands_seen: u64) {
    loop {
        if signal.changed().await.is_err() {
            // The hub is gone, and the process with it.
            std::future::pending::<()>().await;
        }
        let seen = *signal.borrow_and_update();
        if seen.last_seq > after || seen.ended || seen.commands != commands_seen {
            return;
        }
    }
}
