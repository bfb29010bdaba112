//! What touches the host's files and processes, kept within bounds: files beneath a root, process groups, bounded
//! output and change manifests.
//!
//! This crate owns the rules by which a name from a model becomes an access to the host. It refuses whatever leaves the
//! root, whatever is no regular file or directory, and whatever has no stated bound. The invariant: no path is ever
//! checked first and opened later. A handle is opened beneath the root by the kernel's own resolution, and what was
//! opened is judged through that handle.

#![warn(missing_docs)]
#![expect(
    clippy::disallowed_methods,
    reason = "files, processes and their time are what this crate is for"
)]

pub mod globs;
pub mod path;
pub mod process;
pub mod restore;
pub mod root;
pub mod scan;

mod beneath;
mod name;

pub use globs::{DenyGlobs, GlobError};
pub use path::{PathError, RelPath};
pub use process::{CommandOutput, CommandSpec, RunError, run};
pub use restore::{RestoreError, RestoreReport, restore};
pub use root::{AccessError, Directory, Root, RootError};
pub use scan::{ScanError, ScanLimits, Scanner};
