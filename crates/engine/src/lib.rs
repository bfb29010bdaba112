//! The durable driver: it runs the bounded loop against a journal, and is the only writer of run state.
//!
//! A run is driven by folding its journal through the same machine that an embedded execution uses, and by going on where
//! the journal ends. Intent is durable before effect, an answered step is never dispatched again, and whatever was started
//! and not answered is in doubt and treated by its class. The engine reads no clock, random source or file but through its
//! ports; the module `ambient` holds the real ones.

pub mod active;
pub mod ambient;
pub mod configuration;
pub mod definition;
pub mod drive;
pub mod facts;
pub mod host;
pub mod lease;
pub mod ports;
pub mod prepare;
pub mod project;
pub mod replay;
mod writer;

pub use configuration::Configuration;
pub use definition::{HostAbilities, Violation};
pub use drive::{DriveEnd, Launch, drive};
pub use host::{Host, HostOptions, Slot};
pub use lease::Lease;
pub use ports::{
    Deps, Equipment, LedgerAnswer, ModelSource, NoLedger, Observer, Preparer, Spawner, ToolLedger,
    UnknownModel, Unobserved, WorkspaceHost,
};
pub use prepare::DefinitionPreparer;
pub use replay::{Difference, DifferenceKind, Replayed, replay};
