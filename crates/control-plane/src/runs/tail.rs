//! A reader of a journal that goes on where it is, waits at the end, and stops after the terminal event.
//!
//! The reader pulls: nothing is read ahead of what the client takes but one page, whose size follows the size of its
//! events. A reader that does not take anything costs its page and its connection, which the connection's write timeout ends.

use super::frames::{COME_AGAIN, HEARTBEAT, frame};
use crate::api::Api;
use bytes::Bytes;
use futures::Stream;
use portolan_core::{event::is_terminal_kind, ids::Seq};
use portolan_journal::{RunRef, RunSignal};
use std::{collections::VecDeque, convert::Infallible, sync::Arc};
use tokio::sync::watch;

/// The most events of a page.
const MOST_EVENTS: u32 = 64;
/// A page that is larger than this makes the next ones smaller.
const ENOUGH_BYTES: usize = 256 * 1024;

/// A tail of one run.
pub(crate) struct Tail {
    api: Arc<Api>,
    run: RunRef,
    /// What the key is looked up by: a stream ends when its key does.
    secret_hash: [u8; 32],
    after: Seq,
    frames: VecDeque<Bytes>,
    page_events: u32,
    signal: watch::Receiver<RunSignal>,
    /// On the monotonic clock, in microseconds.
    heartbeat_at: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There may be more.
    Open,
    /// The frames that are left are the last.
    Closing,
}

impl Tail {
    /// Follows a run strictly after a place.
    pub(crate) fn new(api: Arc<Api>, run: RunRef, secret_hash: [u8; 32], after: Seq) -> Self {
        let signal = api.journal.hub().follow(run);
        let heartbeat_at = api.clock.monotonic_us() + api.config.heartbeat_ms * 1_000;
        Self {
            api,
            run,
            secret_hash,
            after,
            frames: VecDeque::new(),
            page_events: 8,
            signal,
            heartbeat_at,
            state: State::Open,
        }
    }

    /// The frames, one by one.
    pub(crate) fn frames(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        futures::stream::unfold(self, |mut tail| async move {
            let frame = tail.next().await?;
            Some((Ok(frame), tail))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                self.put_off_heartbeat();
                return Some(frame);
            }
            if self.state == State::Closing {
                return None;
            }
            if self.api.shutdown.is_cancelled() {
                self.state = State::Closing;
                return Some(COME_AGAIN);
            }
            // Seen before the page is read, so that a commit in between wakes the wait.
            self.signal.borrow_and_update();
            match self.read_page().await {
                Ok(()) if self.frames.is_empty() => {
                    if let Some(frame) = self.wait().await {
                        return Some(frame);
                    }
                }
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(%error, run = %self.run.run, "a stream ends early");
                    self.state = State::Closing;
                    return Some(COME_AGAIN);
                }
            }
        }
    }

    async fn read_page(&mut self) -> Result<(), portolan_journal::JournalError> {
        let events = self
            .api
            .journal
            .read(self.run, self.after, self.page_events)
            .await?;
        let bytes: usize = events.iter().map(|event| event.payload.len()).sum();
        self.page_events = if bytes > ENOUGH_BYTES {
            (self.page_events / 4).max(1)
        } else {
            (self.page_events * 2).min(MOST_EVENTS)
        };
        for event in events {
            self.after = event.seq;
            self.frames.push_back(frame(self.run.run, &event));
            if is_terminal_kind(&event.kind) {
                self.state = State::Closing;
            }
        }
        Ok(())
    }

    /// Waits at the end of the journal: a frame, if there is one to send meanwhile.
    async fn wait(&mut self) -> Option<Bytes> {
        let now = self.api.clock.monotonic_us();
        if now >= self.heartbeat_at {
            self.put_off_heartbeat();
            let key = self.api.key_cache.look_up(self.secret_hash, &self.api).await;
            if matches!(key, Ok(None)) {
                self.state = State::Closing;
                return None;
            }
            return Some(HEARTBEAT);
        }
        let silent_ms = (self.heartbeat_at - now).div_ceil(1_000);
        let pause_ms = silent_ms.min(self.api.config.poll_ms);
        let (signal, clock, shutdown) = (&mut self.signal, &self.api.clock, &self.api.shutdown);
        let committed = async {
            if signal.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = committed => {}
            () = clock.sleep_ms(pause_ms) => {}
            () = shutdown.cancelled() => {}
        }
        None
    }

    fn put_off_heartbeat(&mut self) {
        self.heartbeat_at = self.api.clock.monotonic_us() + self.api.config.heartbeat_ms * 1_000;
    }
}
