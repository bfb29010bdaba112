//! Workspaces: the files that an execution may see and change, in memory or in a directory, under a policy.
//!
//! This module decides what a policy allows; how a path becomes an access to the host is the business of
//! `portolan_confine`. Both kinds of workspace keep the same rules, so that an agent that was tried in memory meets the
//! same refusals in a directory. The invariant: what a model is told about a refusal shows no path of the host, and a
//! refusal by a deny glob or by a missing permission does not tell whether anything is there.

mod directory;
mod files;
mod memory;
mod policy;
mod refusal;

pub use directory::DirectoryWorkspace;
pub use memory::{MAX_MEMORY_BYTES, MAX_MEMORY_FILES, MemoryWorkspace};
pub use policy::{Policy, PolicyError};

use portolan_confine::{PathError, RootError};

/// Why there is no workspace or resource.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceConfigError {
    /// The path of a file leads out of the workspace or is malformed.
    #[error("the file path {path:?} is not valid: {reason}")]
    InvalidPath {
        /// The path as it was given.
        path: String,
        /// What is wrong with it.
        reason: PathError,
    },
    /// A file was to be the root itself.
    #[error("the file path {path:?} names the root, which is no file")]
    RootIsNoFile {
        /// The path as it was given.
        path: String,
    },
    /// Two files have the same path, possibly spelt differently.
    #[error("there are two files {path:?}")]
    Duplicate {
        /// The path, normalised.
        path: String,
    },
    /// A path is a file and has files below it.
    #[error("{path:?} is both a file and a directory")]
    FileAndDirectory {
        /// The path.
        path: String,
    },
    /// There is more than a workspace in memory holds.
    #[error("there are more than {MAX_MEMORY_FILES} files or {MAX_MEMORY_BYTES} bytes")]
    TooLarge,
    /// The directory cannot be opened.
    #[error(transparent)]
    Directory(#[from] RootError),
}
