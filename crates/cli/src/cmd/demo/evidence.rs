//! What the demo knows at the end, from outside of the server.

use super::{ledger::Send, project::TestRun};
use serde::Serialize;
use serde_json::Value;

/// How the server died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kill {
    /// The process.
    pub(super) pid: i32,
    /// The signal that it died of, as its parent learnt it.
    pub(super) signal: Option<i32>,
    /// The key of the call that was in flight.
    pub(super) key: String,
    /// Which model call that was.
    pub(super) call: usize,
    /// The last event that had been seen before.
    pub(super) last_seq_before: u64,
}

/// A file that the run changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) path: String,
    pub(super) operation: String,
    /// The content now; `None` for a deleted file.
    pub(super) content: Option<Vec<u8>>,
}

/// Everything that claims are judged on.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// The tests of the project before anybody touched it.
    pub(super) tests_before: TestRun,
    /// The tests on the files that the run left, run by the demo itself.
    pub(super) tests_after: TestRun,
    pub(super) kill: Option<Kill>,
    /// The run as the API shows it.
    pub(super) run: Value,
    /// Its journal.
    pub(super) events: Vec<Value>,
    /// Its steps.
    pub(super) steps: Vec<Value>,
    pub(super) changed: Vec<Changed>,
    /// The provider's ledger; `None` with a real model.
    pub(super) ledger: Option<Vec<Send>>,
    /// How the last server ended when it was asked to.
    pub(super) last_exit: Option<i32>,
}
