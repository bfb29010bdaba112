//! What stands beside a journal: the run row, its inbox and its budget scopes.

use crate::fold::{Progress, RunStatus};
use portolan_core::{
    agent::AgentName,
    event::Recorded,
    ids::{Epoch, OwnerId, RunId, Seq, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// A run of a tenant. Every look-up is by both, so that a foreign run is never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunRef {
    /// The tenant.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
}

/// A run as a store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Which run.
    pub at: RunRef,
    /// Its agent.
    pub agent: AgentName,
    /// The version of the agent that it is pinned to.
    pub agent_version: u32,
    /// Tags, for lists.
    pub tags: Vec<String>,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// The fold of its journal.
    pub progress: Progress,
    /// The place of its last event.
    pub last_seq: Seq,
    /// The generation of its owner.
    pub epoch: Epoch,
    /// Its owner, if it has one.
    pub owner: Option<OwnerId>,
    /// Until when the owner holds it.
    pub lease_until: Option<Timestamp>,
    /// When a waiting run is to be claimed again.
    pub wake_at: Option<Timestamp>,
    /// How often it was re-driven since it last got on.
    pub redrives: u32,
    /// Active time that it used, in milliseconds.
    pub active_ms: u64,
    /// What is held for it in the budgets.
    pub reserved: NanoUsd,
    /// What it has spent.
    pub settled: NanoUsd,
    /// When an open cancel was asked for.
    pub cancel_requested_at: Option<Timestamp>,
}

impl RunRow {
    /// The status that the API shows.
    pub const fn shown_status(&self) -> &'static str {
        match (self.progress.status, self.cancel_requested_at) {
            (RunStatus::Queued | RunStatus::Running | RunStatus::Waiting, Some(_)) => "cancelling",
            (status, _) => status.name(),
        }
    }
}

/// What a reader shows of a run, seen in one moment.
#[derive(Debug, Clone)]
pub struct Glance {
    /// The row.
    pub row: RunRow,
    /// The first event: what was asked.
    pub first: Recorded,
    /// The last event: of a run that has ended, how.
    pub last: Recorded,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Which run.
    pub at: RunRef,
    /// The place of its last event.
    pub last_seq: Seq,
    /// Whether it has ended.
    pub ended: bool,
}

/// What comes from outside to a run. Its owner turns it into journal events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// End the run.
    Cancel,
}

/// The number of an inbox entry, unique within a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InboxId(pub u64);

/// A command that the owner has not turned into events yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxEntry {
    /// Its number.
    pub id: InboxId,
    /// When it became durable.
    pub at: Timestamp,
    /// What to do.
    pub command: Command,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commanded {
    /// It is durable. The same command twice is one entry.
    Accepted,
    /// The run has ended.
    AlreadyTerminal,
    /// The tenant has no such run.
    NotFound,
}

/// Which runs a list shows.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only of this status.
    pub status: Option<RunStatus>,
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only admitted at or after.
    pub since: Option<Timestamp>,
    /// Only admitted before.
    pub until: Option<Timestamp>,
    /// Only older than this run: the cursor.
    pub before: Option<RunId>,
}

/// What a budget is kept for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScopeKey {
    /// The whole tenant.
    Tenant,
    /// One agent of it.
    Agent(AgentName),
}

/// The books of a scope: settled + reserved never passes the limit by an admission or a top-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScopeBooks {
    /// The most that may be spent.
    pub limit: NanoUsd,
    /// What was spent.
    pub settled: NanoUsd,
    /// What is held for runs that have not ended.
    pub reserved: NanoUsd,
}

impl ScopeBooks {
    /// Whether that much more may be held. A scope that is used up admits nothing, not even a free run.
    pub fn has_room_for(&self, amount: NanoUsd) -> bool {
        let held = self.settled.saturating_add(self.reserved);
        held < self.limit && held.checked_add(amount).is_some_and(|sum| sum <= self.limit)
    }
}
