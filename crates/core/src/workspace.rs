//! The port to a workspace: the files that an execution may see and change.

use crate::{digest::Digest, manifest::Manifest};
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// What a workspace or a resource allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// List directories.
    List,
    /// Read files.
    Read,
    /// Create files that are not there.
    Create,
    /// Change files that are there.
    Edit,
    /// Remove files.
    Delete,
    /// Run commands.
    Execute,
}

/// Why an access was not made. The text goes to the model, so it never shows a path of the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceError {
    /// The policy forbids it, or the path leads out of the root.
    #[error("{0}")]
    Denied(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// Where a command of the shell tool starts.
#[derive(Debug)]
pub struct WorkingDirectory {
    /// Where it was when it was opened.
    pub path: PathBuf,
    /// The open directory, in the form that whoever runs commands knows: with it a rename leads nowhere else. Whoever does
    /// not know the form opens the path.
    pub guard: Box<dyn std::any::Any + Send + Sync>,
}

/// Files below a root, under a policy. Paths are relative with `/`; `.` is the root.
pub trait Workspace: Send + Sync + fmt::Debug {
    /// The paths of all files at or below a path, sorted; what the policy denies is left out. A path that is not there has
    /// none.
    fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError>;

    /// The text of a file, exact, UTF-8.
    fn read(&self, path: &str) -> Result<String, WorkspaceError>;

    /// Creates or replaces a file, as far as the policy allows the one or the other.
    fn write(&self, path: &str, content: &str) -> Result<(), WorkspaceError>;

    /// The directory in which a command may start, if commands are allowed here at all.
    fn working_directory(&self, path: &str) -> Result<WorkingDirectory, WorkspaceError>;

    /// What is there now, whatever the policy says. The second look costs little if little changed.
    fn scan(&self) -> Result<Manifest, WorkspaceError>;

    /// The bytes of a file, whatever the policy says: for keeping content, never for a model.
    fn content(&self, path: &str) -> Result<Vec<u8>, WorkspaceError>;

    /// Makes the workspace exactly what the manifest says, and verifies it.
    fn restore(
        &self,
        manifest: &Manifest,
        fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, WorkspaceError>,
    ) -> Result<(), WorkspaceError>;
}
