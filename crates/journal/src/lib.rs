//! The journal and the state of runs, as a port, with the fold that both sides of it share.
//!
//! The journal is the only truth about a run. A store keeps it dense, refuses a stale owner in the same statement that
//! would write, and moves events, the folded run row and money together. This crate owns that contract, the fold, the tail
//! that readers follow a run with, the hub that wakes them, and an in-memory store for embedding and tests. It knows neither SQL nor the agent loop.

#![warn(missing_docs)]

pub mod append;
pub mod audit;
pub mod blob;
pub mod export;
pub mod faulty;
pub mod fold;
pub mod hub;
pub mod import;
pub mod memory;
pub mod row;
pub mod store;
pub mod tail;

pub use append::{
    Admission, Admitted, Append, Appended, Claim, ClaimRequest, Claimed, DeadOwners, IdempotencyClaim,
    NewEvent, Release, RenewRequest, Renewed, Settlement, TopUp,
};
pub use fold::{Progress, RunStatus};
pub use hub::{Hub, RunSignal};
pub use import::{Import, ImportError, Imported};
pub use row::{
    Command, Commanded, Glance, Head, InboxEntry, InboxId, RunFilter, RunRef, RunRow, ScopeBooks, ScopeKey,
};
pub use store::{JournalError, JournalStore};
pub use tail::{Tail, TailItem, TailTimes};
