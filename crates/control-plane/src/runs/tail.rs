//! The event stream of one run: what the tail tells, as frames, while the key holds and the server stays.
//!
//! The reader pulls: nothing is made ahead of what the client takes. A reader that does not take anything costs its page and
//! its connection, which the connection's write timeout ends.

use super::frames::{HEARTBEAT, come_again, frame};
use crate::api::Api;
use bytes::Bytes;
use futures::Stream;
use portolan_core::{
    faults::{self, Point},
    ids::Seq,
};
use portolan_journal::{RunRef, Tail, TailItem, TailTimes};
use std::{convert::Infallible, sync::Arc};

/// The stream of one run to one client.
pub(crate) struct EventStream {
    api: Arc<Api>,
    run: RunRef,
    tail: Tail,
    /// What the key is looked up by: a stream ends when its key does.
    secret_hash: [u8; 32],
    /// When the key is looked up again: on the monotonic clock, in microseconds.
    check_us: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There may be more.
    Open,
    /// The last frame was given out.
    Closed,
}

impl EventStream {
    /// Follows a run strictly after a place.
    pub(crate) fn new(api: Arc<Api>, run: RunRef, secret_hash: [u8; 32], after: Seq) -> Self {
        let times = TailTimes {
            heartbeat_ms: api.config.heartbeat_ms,
            poll_ms: api.config.poll_ms,
        };
        let tail = Tail::new(
            Arc::clone(&api.journal),
            Arc::clone(&api.clock),
            run,
            after,
            times,
        );
        let check_us = next_check(&api);
        Self {
            api,
            run,
            tail,
            secret_hash,
            check_us,
            state: State::Open,
        }
    }

    /// The frames, one by one.
    pub(crate) fn frames(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        futures::stream::unfold(self, |mut stream| async move {
            let frame = stream.next().await?;
            Some((Ok(frame), stream))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        if self.state == State::Closed {
            return None;
        }
        let item = tokio::select! {
            biased;
            () = self.api.shutdown.cancelled() => {
                self.state = State::Closed;
                return Some(come_again(&*self.api.entropy));
            }
            item = self.tail.next() => item,
        };
        if !self.key_holds().await {
            self.state = State::Closed;
            return None;
        }
        match item {
            TailItem::Event(event) => {
                faults::at(Point::FrameBefore).await;
                Some(frame(self.run.run, &event))
            }
            TailItem::HeartbeatDue => Some(HEARTBEAT),
            TailItem::Ended => None,
            TailItem::ComeAgain(error) => {
                tracing::warn!(%error, run = %self.run.run, "a stream ends early");
                self.state = State::Closed;
                Some(come_again(&*self.api.entropy))
            }
        }
    }

    /// Whether the key still opens this stream, looked up now and then: a stream that is never silent ends with its key too.
    async fn key_holds(&mut self) -> bool {
        if self.api.clock.monotonic_us() < self.check_us {
            return true;
        }
        self.check_us = next_check(&self.api);
        let key = self.api.key_cache.look_up(self.secret_hash, &self.api).await;
        // A key that cannot be looked up now was good a moment ago.
        !matches!(key, Ok(None))
    }
}

fn next_check(api: &Api) -> u64 {
    let pause_us = api.config.heartbeat_ms.saturating_mul(1_000);
    api.clock.monotonic_us().saturating_add(pause_us)
}
