//! What users saw: every request that was begun and how it ended, every stream with the events that it gave.

use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// An event as a reader saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Seen {
    pub(super) seq: u64,
    pub(super) kind: String,
    /// Digest of the data, so that two readers can be compared.
    pub(super) data: String,
}

/// What a reader of one run saw over all its connections.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Stream {
    pub(super) run: String,
    pub(super) events: Vec<Seen>,
    pub(super) connections: u32,
    /// Whether the end of the stream was that of the run.
    pub(super) ended: bool,
}

/// How requests went while nothing was wrong, for the rule that a system which refuses everything proves nothing.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Calm {
    pub(super) tried: u64,
    pub(super) succeeded: u64,
}

/// The whole.
#[derive(Debug, Clone, Default)]
pub(super) struct History(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
pub(super) struct Inner {
    /// Requests by their key: the run that each answer named. More than one is a violation.
    pub(super) acknowledged: BTreeMap<String, BTreeSet<String>>,
    /// Keys of requests that were begun.
    pub(super) begun: BTreeSet<String>,
    /// Runs that somebody asked to cancel, whatever the answer was: one that was lost may have been taken.
    pub(super) cancel_asked: BTreeSet<String>,
    /// Runs whose cancel was acknowledged.
    pub(super) cancelled: BTreeSet<String>,
    /// What users saw a run end as. More than one is a violation.
    pub(super) ended: BTreeMap<String, BTreeSet<String>>,
    pub(super) streams: Vec<Stream>,
    pub(super) calm: Calm,
    pub(super) failed_requests: u64,
    /// Answers that no trouble explains.
    pub(super) surprises: Vec<String>,
}

impl History {
    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begun(&self, key: &str) {
        self.inner().begun.insert(key.to_owned());
    }

    pub(super) fn acknowledged(&self, key: &str, run: &str) {
        let mut inner = self.inner();
        inner
            .acknowledged
            .entry(key.to_owned())
            .or_default()
            .insert(run.to_owned());
    }

    pub(super) fn cancel_asked(&self, run: &str) {
        self.inner().cancel_asked.insert(run.to_owned());
    }

    pub(super) fn cancelled(&self, run: &str) {
        self.inner().cancelled.insert(run.to_owned());
    }

    pub(super) fn ended(&self, run: &str, status: &str) {
        let mut inner = self.inner();
        inner
            .ended
            .entry(run.to_owned())
            .or_default()
            .insert(status.to_owned());
    }

    pub(super) fn stream(&self, stream: Stream) {
        self.inner().streams.push(stream);
    }

    pub(super) fn surprise(&self, what: String) {
        self.inner().surprises.push(what);
    }

    /// A request ended; `calm` if nothing was wrong from its beginning to its end.
    pub(super) fn request(&self, calm: bool, succeeded: bool) {
        let mut inner = self.inner();
        if calm {
            inner.calm.tried += 1;
            inner.calm.succeeded += u64::from(succeeded);
        }
        inner.failed_requests += u64::from(!succeeded);
    }
}
