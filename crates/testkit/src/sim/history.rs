//! The history: what happened, in the order in which it happened, for the rules and for the comparison of two runs of a seed.

use super::time::Time;
use portolan_core::{
    digest::Digest,
    event::Recorded,
    ids::{Epoch, RunId, Seq, TenantId},
    money::NanoUsd,
    tool::ToolClass,
};
use portolan_journal::{RunRef, RunStatus, ScopeBooks};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a commit left of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Committed {
    pub(super) at_us: u64,
    pub(super) status: RunStatus,
    pub(super) epoch: Epoch,
    pub(super) last_seq: Seq,
}

/// One send to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    /// When the first byte left.
    pub(super) at_us: u64,
    pub(super) key: String,
    pub(super) request: Digest,
    /// When it was charged, and how much.
    pub(super) charged: Option<(u64, NanoUsd)>,
}

/// One execution of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Executed {
    pub(super) at_us: u64,
    pub(super) key: String,
    pub(super) class: ToolClass,
}

/// What a reader saw of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) events: Vec<(Seq, String, Digest)>,
    pub(super) connections: u64,
    pub(super) ended: bool,
}

/// How much happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Runs that were acknowledged.
    pub runs: u64,
    /// Those that ended with a value.
    pub succeeded: u64,
    /// Those that ended quarantined.
    pub quarantined: u64,
    /// Commits.
    pub commits: u64,
    /// Steps that were answered.
    pub steps: u64,
    /// Deaths of processes.
    pub kills: u64,
    /// Pauses and drains of processes.
    pub pauses: u64,
    /// Crashes of the database, and phases in which it wrote nothing.
    pub crashes: u64,
    /// Requests to the database that failed, were lost or late.
    pub store_faults: u64,
    /// Faults of providers.
    pub provider_faults: u64,
    /// Simulated time, in milliseconds.
    pub simulated_ms: u64,
}

impl Counts {
    /// All faults.
    pub const fn faults(&self) -> u64 {
        self.kills + self.pauses + self.crashes + self.store_faults + self.provider_faults
    }

    /// Adds another seed's.
    pub const fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.succeeded += other.succeeded;
        self.quarantined += other.quarantined;
        self.commits += other.commits;
        self.steps += other.steps;
        self.kills += other.kills;
        self.pauses += other.pauses;
        self.crashes += other.crashes;
        self.store_faults += other.store_faults;
        self.provider_faults += other.provider_faults;
        self.simulated_ms += other.simulated_ms;
    }
}

/// The whole, shared by everybody.
#[derive(Debug, Clone)]
pub(super) struct History {
    time: Time,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    /// Requests by tenant and key, with the runs that answers named.
    pub(super) acknowledged: BTreeMap<(TenantId, String), BTreeSet<RunId>>,
    pub(super) begun: BTreeSet<(TenantId, String)>,
    pub(super) cancelled: BTreeSet<RunRef>,
    pub(super) commits: BTreeMap<RunRef, Vec<Committed>>,
    pub(super) sends: Vec<Sent>,
    pub(super) executions: Vec<Executed>,
    pub(super) readers: BTreeMap<(u64, RunRef), Seen>,
    /// Budgets that were passed, as they were seen.
    pub(super) overshoots: Vec<(TenantId, ScopeBooks)>,
    /// When the faults stopped.
    pub(super) healed_us: Option<u64>,
    pub(super) counts: Counts,
    lines: u64,
    hasher: Hasher,
    /// Kept only if somebody wants to read it.
    pub(super) text: Option<Vec<String>>,
}

/// A digest that grows with each line.
#[derive(Debug, Default)]
struct Hasher(Vec<u8>, Option<Digest>);

impl Hasher {
    fn line(&mut self, line: &str) {
        self.0.extend_from_slice(line.as_bytes());
        self.0.push(b'\n');
        if self.0.len() > 1 << 16 {
            self.fold();
        }
    }

    fn fold(&mut self) {
        let mut all = self.1.map(|digest| digest.0.to_vec()).unwrap_or_default();
        all.append(&mut self.0);
        self.1 = Some(Digest::of(&all));
    }
}

impl History {
    pub(super) fn new(time: Time, keeps_text: bool) -> Self {
        let inner = Inner {
            text: keeps_text.then(Vec::new),
            ..Inner::default()
        };
        Self {
            time,
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line.
    pub(super) fn note(&self, line: std::fmt::Arguments<'_>) {
        let at = self.time.now_us();
        let mut inner = self.inner();
        let line = format!("{at} {line}");
        inner.hasher.line(&line);
        inner.lines += 1;
        if let Some(text) = &mut inner.text {
            text.push(line);
        }
    }

    /// Counts something.
    pub(super) fn count(&self, what: impl FnOnce(&mut Counts)) {
        what(&mut self.inner().counts);
    }

    pub(super) fn committed(&self, run: RunRef, committed: Committed) {
        self.note(format_args!("commit {} {committed:?}", run.run));
        let mut inner = self.inner();
        inner.counts.commits += 1;
        inner.commits.entry(run).or_default().push(committed);
    }

    pub(super) fn read(&self, reader: u64, run: RunRef, event: &Recorded) {
        let digest = Digest::of(&event.payload);
        self.note(format_args!(
            "reader {reader} {} {} {}",
            run.run, event.seq.0, event.kind
        ));
        let mut inner = self.inner();
        let seen = inner.readers.entry((reader, run)).or_default();
        seen.events.push((event.seq, event.kind.clone(), digest));
    }

    /// The digest of everything so far.
    pub(super) fn digest(&self) -> Digest {
        let mut inner = self.inner();
        inner.hasher.fold();
        inner.hasher.1.unwrap_or_else(|| Digest::of(b""))
    }
}
