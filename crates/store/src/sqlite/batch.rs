//! Writes that wait for one commit: each is judged alone, and each hears what became of its own.

use super::{fault::Fault, write::Scopes};
use portolan_journal::{Hub, JournalError};
use rusqlite::Connection;
use tokio::sync::oneshot;

/// What a write sees.
pub(super) struct Tx<'a> {
    /// The connection, inside a transaction that it shares with its neighbours.
    pub(super) connection: &'a Connection,
    /// Which scopes have a limit.
    pub(super) scopes: &'a mut Scopes,
}

/// One request that writes. It may be applied twice, the first time in a transaction that was rolled back.
pub(super) trait Write: Send + 'static {
    /// What the caller hears.
    type Answer: Send + 'static;

    /// Decides and writes. A request that is refused has written nothing.
    fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Answer, Fault>;

    /// Tells the hub what is committed now.
    fn announce(&self, _answer: &Self::Answer, _hub: &Hub) {}
}

/// What became of a transaction.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// Everything is durable.
    Committed,
    /// Nothing was written.
    NotCommitted(String),
    /// Nobody knows.
    Unknown(String),
}

/// A write of any kind, in the queue.
pub(super) trait Queued: Send {
    /// Applies it and keeps the answer. False if it failed.
    fn apply(&mut self, tx: &mut Tx<'_>) -> bool;

    /// Announces and answers.
    fn finish(self: Box<Self>, outcome: &Outcome, hub: &Hub);
}

/// A place in the queue.
pub(super) type QueuedWrite = Box<dyn Queued>;

/// A write with the caller that waits for it.
pub(super) struct Pending<W: Write> {
    write: W,
    answer: Option<Result<W::Answer, Fault>>,
    caller: oneshot::Sender<Result<W::Answer, JournalError>>,
}

/// Where a caller hears its answer.
pub(super) type Answer<W> = oneshot::Receiver<Result<<W as Write>::Answer, JournalError>>;

impl<W: Write> Pending<W> {
    /// Makes the place in the queue and the ear for the answer.
    pub(super) fn queue(write: W) -> (QueuedWrite, Answer<W>) {
        let (caller, answer) = oneshot::channel();
        let pending = Self {
            write,
            answer: None,
            caller,
        };
        (Box::new(pending), answer)
    }
}

impl<W: Write> Queued for Pending<W> {
    fn apply(&mut self, tx: &mut Tx<'_>) -> bool {
        self.answer.insert(self.write.apply(tx)).is_ok()
    }

    fn finish(self: Box<Self>, outcome: &Outcome, hub: &Hub) {
        let answer = match (self.answer, outcome) {
            (Some(Err(fault)), _) => Err(fault.into()),
            (Some(Ok(answer)), Outcome::Committed) => {
                self.write.announce(&answer, hub);
                Ok(answer)
            }
            (_, Outcome::Unknown(why)) => Err(JournalError::Unknown(why.clone())),
            (_, Outcome::NotCommitted(why)) => Err(JournalError::NotCommitted(why.clone())),
            (None, Outcome::Committed) => Err(JournalError::NotCommitted("it was not applied".to_owned())),
        };
        // A caller that went away does not need the answer; what it asked for happened all the same.
        let _ = self.caller.send(answer);
    }
}
