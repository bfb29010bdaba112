//! Live chaos: real servers, a real database, real clients, and somebody who kills, stops and cuts them.
//!
//! Servers are processes of the binary. Users start runs with idempotency keys, ask again until they are acknowledged,
//! cancel some, and follow others through streams that are cut and resumed at other servers. Meanwhile trouble comes every
//! few seconds. At the end trouble stops, everything has to end, and the history of what every user was told is compared
//! with what the servers, the ledger of the provider and `portolan verify` say. Which trouble came when follows from the
//! seed; the rest is as random as machines are.

mod disk;
mod fleet;
mod history;
mod proxy;
mod reader;
mod story;
mod trouble;
mod users;
mod verdict;

pub use story::{Options, Report, run};
pub use trouble::Kind as TroubleKind;

/// Why a chaos run could not be carried out. What it found is in its report.
pub type ChaosError = Box<dyn std::error::Error + Send + Sync>;
