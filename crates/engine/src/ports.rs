//! What the engine needs from its surroundings.

use crate::configuration::Configuration;
use portolan_core::{
    Fut,
    agent::{AgentStore, AgentVersion, WorkspaceSource},
    entropy::Entropy,
    event::RunQueued,
    failure::RunFailure,
    ids::IdempotencyKey,
    manifest::Manifest,
    model::Model,
    price::Prices,
    time::Clock,
    tool::{Tool, ToolError},
    trace::Boundary,
    workspace::{Workspace, WorkspaceError},
};
use portolan_journal::{JournalStore, RunRef, blob::BlobStore};
use serde_json::Value;
use std::{fmt, sync::Arc};

/// The surroundings of the engine.
#[derive(Clone)]
pub struct Deps {
    /// The journal.
    pub journal: Arc<dyn JournalStore>,
    /// File contents and manifests.
    pub blobs: Arc<dyn BlobStore>,
    /// Agent definitions.
    pub agents: Arc<dyn AgentStore>,
    /// Models by name.
    pub models: Arc<dyn ModelSource>,
    /// Prices by model.
    pub prices: Arc<dyn Prices>,
    /// Turns definitions into configurations and tools.
    pub preparer: Arc<dyn Preparer>,
    /// Who remembers what became of a tool invocation.
    pub ledger: Arc<dyn ToolLedger>,
    /// Who looks on. Tests steer with it.
    pub observer: Arc<dyn Observer>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps")
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

/// A model name that resolves to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownModel(pub String);

/// Resolves `provider/model`.
pub trait ModelSource: Send + Sync {
    /// The model of that name.
    fn model(&self, name: &str) -> Result<Arc<dyn Model>, UnknownModel>;
}

/// What a run works with beside its configuration: rebuilt by every owner from the pinned definition.
pub struct Equipment {
    /// The tools, in the order of the configuration.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The workspace, if the agent has one.
    pub workspace: Option<Arc<dyn Workspace>>,
}

impl fmt::Debug for Equipment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Equipment")
            .field("tools", &self.tools.len())
            .field("workspace", &self.workspace)
            .finish()
    }
}

/// The first content of a workspace: its manifest, and the contents that the manifest names.
#[derive(Debug, Clone, Default)]
pub struct Seed {
    /// What is where.
    pub manifest: Manifest,
    /// The contents of its files, in any order.
    pub contents: Vec<Vec<u8>>,
}

/// Turns a definition and a request into what the engine drives.
pub trait Preparer: Send + Sync {
    /// Fixes the configuration of a fresh run. `tools` are those of [`Preparer::equip`].
    fn configure(
        &self,
        run: RunRef,
        agent: &AgentVersion,
        queued: &RunQueued,
        tools: &[Arc<dyn Tool>],
    ) -> Result<Configuration, RunFailure>;

    /// Builds the tools and opens the workspace, without content.
    fn equip(&self, run: RunRef, agent: &AgentVersion, queued: &RunQueued) -> Result<Equipment, RunFailure>;

    /// The content that a fresh workspace begins with; `None` leaves it as it is.
    fn seed(&self, agent: &AgentVersion, queued: &RunQueued) -> Result<Option<Seed>, RunFailure>;

    /// The run has ended: what was opened for it may go.
    fn discard(&self, run: RunRef);
}

/// Opens workspaces on the host of the engine.
pub trait WorkspaceHost: Send + Sync {
    /// Opens the workspace of a run, empty if it is new.
    fn open(&self, run: RunRef, source: &WorkspaceSource) -> Result<Arc<dyn Workspace>, WorkspaceError>;

    /// Removes the workspace of a run.
    fn discard(&self, run: RunRef);
}

/// What a ledger knows about an invocation that was started and not answered.
#[derive(Debug, Clone, PartialEq)]
pub enum LedgerAnswer {
    /// It ran.
    Ran {
        /// What came of it.
        outcome: Result<Value, ToolError>,
        /// Whether the workspace still is as the invocation left it. Otherwise what it changed is lost, and the files of
        /// the last committed step are put back.
        workspace_kept: bool,
    },
    /// It never began.
    NeverRan,
    /// Nobody can tell.
    NobodyKnows,
}

/// Remembers invocations by their key beyond the life of the engine.
pub trait ToolLedger: Send + Sync {
    /// What became of the invocation with this key.
    fn outcome<'a>(&'a self, key: &'a IdempotencyKey) -> Fut<'a, LedgerAnswer>;
}

/// No ledger: tools ran in a process that is gone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLedger;

impl ToolLedger for NoLedger {
    fn outcome<'a>(&'a self, _key: &'a IdempotencyKey) -> Fut<'a, LedgerAnswer> {
        Box::pin(std::future::ready(LedgerAnswer::NobodyKnows))
    }
}

/// Starts tasks. A run is driven by a task of its own.
pub trait Spawner: Send + Sync + fmt::Debug {
    /// Starts a task that nobody waits for. It ends by itself, or with the process.
    fn spawn(&self, task: Fut<'static, ()>);
}

/// Looks on while runs are driven.
pub trait Observer: Send + Sync {
    /// A boundary is about to be judged at the live edge of a run.
    fn before_check(&self, _run: RunRef, _boundary: Boundary, _ordinal: u64) {}
}

/// Nobody looks on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
