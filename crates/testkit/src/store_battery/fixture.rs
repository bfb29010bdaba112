//! What the checks build their requests from: numbered tenants, owners and runs, and a clock that stands still.

use super::Store;
use portolan_core::{
    agent::AgentName,
    digest::Digest,
    event::Recorded,
    ids::{Attempt, Epoch, OwnerId, RunId, Seq, StepId, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{
    Admission, Admitted, Append, Appended, Claim, ClaimRequest, Claimed, DeadOwners, IdempotencyClaim,
    InboxEntry, JournalError, NewEvent, Progress, RunRef, RunRow, RunStatus, ScopeBooks, ScopeKey,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The present of every check.
pub(super) const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

/// A store with what a check needs to ask it.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) store: Store,
    next: Arc<AtomicU64>,
}

/// An id whose order is that of its number.
fn bytes(number: u64) -> [u8; 16] {
    let mut bytes = [7; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub(super) fn tenant(number: u64) -> TenantId {
    TenantId::from_bytes(bytes(number))
}

pub(super) fn agent(name: &str) -> AgentName {
    name.parse().expect("a check uses proper names")
}

pub(super) fn owner(number: u64) -> OwnerId {
    OwnerId::from_bytes(bytes(number))
}

/// An owner whose lease lasts a minute.
pub(super) fn claim_of(number: u64) -> Claim {
    Claim {
        owner: owner(number),
        lease_until: NOW.plus_ms(60_000),
    }
}

pub(super) fn key(key: &str, body: &str) -> IdempotencyClaim {
    IdempotencyClaim {
        key: key.to_owned(),
        fingerprint: Digest::of(body.as_bytes()),
        expires_at: NOW.plus_ms(1_000),
    }
}

pub(super) fn event(kind: &str, payload: &[u8]) -> NewEvent {
    NewEvent {
        kind: kind.to_owned().into(),
        step: None,
        attempt: None,
        payload: payload.to_vec().into(),
    }
}

pub(super) fn step(kind: &str, step: StepId) -> NewEvent {
    NewEvent {
        step: Some(step),
        attempt: Some(Attempt::FIRST),
        ..event(kind, br#"{"text":"of a step"}"#)
    }
}

pub(super) fn progress(status: RunStatus) -> Progress {
    Progress {
        status,
        ..Progress::default()
    }
}

impl World {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            next: Arc::new(AtomicU64::new(1)),
        }
    }

    /// The next run of the first tenant, younger than those before.
    pub(super) fn run(&self) -> RunRef {
        self.run_of(tenant(1))
    }

    pub(super) fn run_of(&self, tenant: TenantId) -> RunRef {
        RunRef {
            tenant,
            run: RunId::from_bytes(bytes(self.next.fetch_add(1, Ordering::Relaxed))),
        }
    }

    pub(super) fn admission(run: RunRef) -> Admission {
        Admission {
            run,
            agent: agent("writer"),
            agent_version: 1,
            tags: Vec::new(),
            queued: event("run_queued", b"{}"),
            reserve: NanoUsd::ZERO,
            idempotency: None,
            claim: None,
            at: NOW,
        }
    }

    /// A run that waits for a worker.
    pub(super) async fn queued(&self) -> Result<RunRef, String> {
        let run = self.run();
        self.admit(Self::admission(run)).await?;
        Ok(run)
    }

    /// A run that the first owner has begun, with two events.
    pub(super) async fn running(&self) -> Result<RunRef, String> {
        self.running_for(Self::admission(self.run())).await
    }

    pub(super) async fn running_for(&self, admission: Admission) -> Result<RunRef, String> {
        let run = admission.run;
        let admission = Admission {
            claim: Some(claim_of(1)),
            ..admission
        };
        self.admit(admission).await?;
        self.append(Append {
            events: vec![event("run_started", b"{}")],
            ..Self::piece(run)
        })
        .await?;
        Ok(run)
    }

    /// An append of the first generation that leaves the run running and writes nothing.
    pub(super) fn piece(run: RunRef) -> Append {
        Append {
            run,
            epoch: Epoch(1),
            after: None,
            at: NOW,
            active_ms: 0,
            events: Vec::new(),
            progress: progress(RunStatus::Running),
            advances: false,
            settle: None,
            top_up: None,
            consumed: Vec::new(),
            release: None,
        }
    }

    /// The append that ends the run well.
    pub(super) fn ending(run: RunRef) -> Append {
        Append {
            events: vec![event("run_succeeded", br#"{"output":1}"#)],
            progress: progress(RunStatus::Succeeded),
            ..Self::piece(run)
        }
    }

    pub(super) async fn admit(&self, admission: Admission) -> Result<Admitted, String> {
        said(self.store.admit(admission).await)
    }

    pub(super) async fn append(&self, append: Append) -> Result<Appended, String> {
        said(self.store.append(append).await)
    }

    /// Appends and wants it committed.
    pub(super) async fn commit(&self, append: Append) -> Result<(Seq, Vec<InboxEntry>), String> {
        match self.append(append).await? {
            Appended::Committed { last_seq, inbox } => Ok((last_seq, inbox)),
            other => Err(format!("an append was not committed: {other:?}")),
        }
    }

    /// What the owner of that number gets at that moment.
    pub(super) async fn claim(
        &self,
        number: u64,
        now: Timestamp,
        max: u32,
        dead: DeadOwners,
    ) -> Result<Vec<Claimed>, String> {
        let request = ClaimRequest {
            claim: Claim {
                owner: owner(number),
                lease_until: now.plus_ms(60_000),
            },
            now,
            max,
            dead,
        };
        said(self.store.claim(request).await)
    }

    pub(super) async fn row(&self, run: RunRef) -> Result<RunRow, String> {
        said(self.store.run(run).await)?.ok_or_else(|| format!("{} is not there", run.run))
    }

    pub(super) async fn journal(&self, run: RunRef) -> Result<Vec<Recorded>, String> {
        said(self.store.read(run, Seq::ZERO, 10_000).await)
    }

    /// The kinds of a journal, which is dense.
    pub(super) async fn kinds(&self, run: RunRef) -> Result<Vec<String>, String> {
        let journal = self.journal(run).await?;
        for (place, event) in (1..).zip(&journal) {
            if event.seq != Seq(place) {
                return Err(format!("event {place} of a journal has the seq {}", event.seq.0));
            }
        }
        Ok(journal.into_iter().map(|event| event.kind).collect())
    }

    pub(super) async fn limit(&self, scope: ScopeKey, limit: u64) -> Result<(), String> {
        let limit = Some(NanoUsd(limit));
        said(self.store.set_scope_limit(tenant(1), scope, limit).await)
    }

    /// The books of a scope as limit, settled and reserved.
    pub(super) async fn books(&self, scope: ScopeKey) -> Result<(u64, u64, u64), String> {
        let books = said(self.store.scope_books(tenant(1), scope).await)?;
        let ScopeBooks {
            limit,
            settled,
            reserved,
        } = books.ok_or("a scope has no books")?;
        Ok((limit.0, settled.0, reserved.0))
    }
}

/// An answer, or the failure in words.
pub(super) fn said<T>(answer: Result<T, JournalError>) -> Result<T, String> {
    answer.map_err(|error| format!("the store failed: {error}"))
}
