use super::resource::Resource;
use crate::workspace::{DirectoryWorkspace, Policy, WorkspaceConfigError};
use portolan_core::workspace::{Workspace, WorkspaceError};
use std::path::Path;

/// A directory of the host as read-only material.
#[derive(Debug)]
pub struct DirectoryResource {
    directory: DirectoryWorkspace,
    description: Option<String>,
}

impl DirectoryResource {
    /// Opens a directory that is there. Only listing and reading can be allowed; a resource has nothing else.
    pub fn open(path: impl AsRef<Path>, policy: Policy) -> Result<Self, WorkspaceConfigError> {
        let directory = DirectoryWorkspace::open(path, policy)?;
        Ok(Self {
            directory,
            description: None,
        })
    }

    /// Says what it is, for the model.
    #[must_use]
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

impl Resource for DirectoryResource {
    fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError> {
        self.directory.list(path)
    }

    fn read(&self, path: &str) -> Result<String, WorkspaceError> {
        self.directory.read(path)
    }

    fn description(&self) -> String {
        let given = self.description.as_deref();
        given.unwrap_or("A directory of read-only files.").to_owned()
    }
}
