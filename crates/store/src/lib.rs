//! The durable stores: the SQL behind every port, its migrations, group commit, and blobs in files.
//!
//! This crate owns the data directory. It refuses to open one that another process holds, that a later build wrote, or
//! whose database would not survive a power cut. What it answers as committed is on the disk.

#![warn(missing_docs)]
#![expect(
    clippy::disallowed_methods,
    reason = "input and output are this crate's work: it owns the files, the threads and the connections of a store"
)]

pub mod blobs;
mod code;
mod import;
mod judge;
pub mod postgres;
mod sql;
pub mod sqlite;
mod steps;

pub use blobs::FileBlobs;
pub use postgres::{PostgresAudit, PostgresBlobs, PostgresStore};
pub use sqlite::{SqliteAudit, SqliteStore, StoreOpenError};
pub use steps::Step;
