//! What is asked of a store, and what it answers.

use crate::{
    fold::Progress,
    row::{InboxEntry, InboxId, RunRef, ScopeKey},
};
use bytes::Bytes;
use portolan_core::{
    agent::AgentName,
    digest::Digest,
    event::{Event, EventError},
    ids::{Attempt, Epoch, OwnerId, RunId, Seq, StepId},
    money::NanoUsd,
    time::Timestamp,
};
use std::borrow::Cow;

/// An event that has no place yet.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The name of the kind.
    pub kind: Cow<'static, str>,
    /// The step that it belongs to.
    pub step: Option<StepId>,
    /// The attempt of that step.
    pub attempt: Option<Attempt>,
    /// The payload.
    pub payload: Bytes,
}

impl NewEvent {
    /// Encodes an event.
    pub fn encode(event: &Event, step: Option<(StepId, Attempt)>) -> Result<Self, EventError> {
        Ok(Self {
            kind: event.kind_name(),
            step: step.map(|(step, _)| step),
            attempt: step.map(|(_, attempt)| attempt),
            payload: event.encode()?.into(),
        })
    }
}

/// Somebody who wants to own a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Who.
    pub owner: OwnerId,
    /// Until when.
    pub lease_until: Timestamp,
}

/// An idempotency key of a request, claimed in the same transaction as what the request creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// The key as the client sent it.
    pub key: String,
    /// What the request asked for: the same under another order of members.
    pub fingerprint: Digest,
    /// From when on the key is free again.
    pub expires_at: Timestamp,
}

/// A run that wants to exist.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Which.
    pub run: RunRef,
    /// Its agent.
    pub agent: AgentName,
    /// The version of the agent.
    pub agent_version: u32,
    /// Tags, for lists.
    pub tags: Vec<String>,
    /// The `run_queued` event, seq 1.
    pub queued: NewEvent,
    /// What is held in the budgets of the tenant and the agent.
    pub reserve: NanoUsd,
    /// The request's key.
    pub idempotency: Option<IdempotencyClaim>,
    /// Claims the run at once for a host that has a free place: one flush less.
    pub claim: Option<Claim>,
    /// Now.
    pub at: Timestamp,
}

/// What became of an admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// The run exists; the epoch if it was claimed at once.
    Created {
        /// The owner's generation.
        epoch: Option<Epoch>,
    },
    /// The key made that run earlier.
    Replayed(RunId),
    /// The key belongs to another request.
    KeyReused,
    /// A budget has no room. Nothing was written.
    OverBudget {
        /// Which.
        scope: ScopeKey,
    },
}

/// Moves money from reserved to settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settlement {
    /// What was held for the call.
    pub reserved: NanoUsd,
    /// What it cost.
    pub actual: NanoUsd,
}

/// More money for the next call, and the events that may only be written with it.
#[derive(Debug, Clone)]
pub struct TopUp {
    /// How much more.
    pub amount: NanoUsd,
    /// What is written if it is granted.
    pub events: Vec<NewEvent>,
    /// The fold after those events.
    pub progress: Progress,
}

/// Gives a run back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Release {
    /// When it is to be claimed again; `None` in a release that is no end means at once.
    pub wake_at: Option<Timestamp>,
}

/// The next piece of a run's journal. All of it is written, or nothing; the top-up is judged on its own.
#[derive(Debug, Clone)]
pub struct Append {
    /// Which run.
    pub run: RunRef,
    /// The writer's generation. Another one on the row changes nothing: fenced.
    pub epoch: Epoch,
    /// Where the journal ends as far as the writer knows; `None` does not ask. An append whose answer was lost may land
    /// late, behind the one that repeats it: the second of the two finds the journal longer and writes nothing.
    pub after: Option<Seq>,
    /// Now.
    pub at: Timestamp,
    /// Active time used so far, in milliseconds.
    pub active_ms: u64,
    /// The events.
    pub events: Vec<NewEvent>,
    /// The fold after these events. A terminal status ends the run in this very transaction: usage is written, the
    /// reservation and the ownership end.
    pub progress: Progress,
    /// Whether the run got on: an answer, a failed attempt or a decision. Resets the count of re-drives.
    pub advances: bool,
    /// Money of the answered call.
    pub settle: Option<Settlement>,
    /// Money for the next call.
    pub top_up: Option<TopUp>,
    /// Commands that these events answer.
    pub consumed: Vec<InboxId>,
    /// Gives the run back.
    pub release: Option<Release>,
}

/// What became of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// Everything is durable.
    Committed {
        /// The place of the last event.
        last_seq: Seq,
        /// Commands that wait for the owner.
        inbox: Vec<InboxEntry>,
    },
    /// The events are durable, the top-up and its events are not.
    TopUpRefused {
        /// The place of the last event.
        last_seq: Seq,
        /// Commands that wait for the owner.
        inbox: Vec<InboxEntry>,
        /// The budget without room.
        scope: ScopeKey,
    },
    /// Somebody else owns the run. Nothing was written.
    Fenced,
    /// The journal does not end where the writer believes. Nothing was written: read back what was.
    Elsewhere,
}

/// Whose runs may be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadOwners {
    /// Those whose lease ran out.
    LeaseExpired,
    /// Everybody else: the caller holds the exclusive lock of an embedded store. And those runs of the caller whose lease ran
    /// out: it does not drive what it does not renew, such as runs of a claim whose answer it never heard.
    AllOthers,
}

/// A worker that looks for runs.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest {
    /// The worker, and until when it wants to hold what it gets.
    pub claim: Claim,
    /// Now.
    pub now: Timestamp,
    /// At most so many.
    pub max: u32,
    /// Whose runs may be taken over.
    pub dead: DeadOwners,
}

/// A won claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// Which run.
    pub run: RunRef,
    /// The new generation.
    pub epoch: Epoch,
    /// How often the run was re-driven since it last got on, this time included.
    pub redrives: u32,
}

/// A worker that is alive.
#[derive(Debug, Clone)]
pub struct RenewRequest {
    /// The worker, and until when it wants to hold its runs.
    pub claim: Claim,
    /// Its runs with their generations and active times.
    pub runs: Vec<(RunRef, Epoch, u64)>,
}

/// What a renewal found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Runs that somebody else owns now.
    pub lost: Vec<RunRef>,
    /// Runs with commands that wait.
    pub commanded: Vec<RunRef>,
}
