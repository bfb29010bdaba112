//! The rules: what must be true of a history, whatever happened in it. They know nothing of how the engine works.

mod acceptance;
mod kept;
mod ledger;
mod lifecycle;
mod money;
mod streams;

use super::{history::Inner, swarm::Swarm};
use portolan_journal::audit::{AuditedScope, Dossier};
use std::{fmt, sync::MutexGuard};

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: &'static str,
    /// What was seen.
    pub detail: String,
}

impl Violation {
    pub(super) const fn new(promise: &'static str, detail: String) -> Self {
        Self { promise, detail }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.detail)
    }
}

/// What is judged.
pub(super) struct Judged<'a> {
    pub(super) swarm: &'a Swarm,
    pub(super) inner: MutexGuard<'a, Inner>,
    pub(super) dossiers: Vec<Dossier>,
    pub(super) scopes: Vec<AuditedScope>,
}

/// Every rule.
pub(super) fn all(judged: &Judged<'_>, found: &mut Vec<Violation>) {
    acceptance::check(judged, found);
    lifecycle::check(judged, found);
    kept::check(judged, found);
    ledger::check(judged, found);
    money::check(judged, found);
    streams::check(judged, found);
}
