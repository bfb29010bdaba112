use super::resource::Resource;
use crate::workspace::{MemoryWorkspace, Policy, WorkspaceConfigError};
use portolan_core::workspace::{Workspace, WorkspaceError};

/// Files in memory as read-only material.
#[derive(Debug)]
pub struct MemoryResource {
    files: MemoryWorkspace,
    description: Option<String>,
}

impl MemoryResource {
    /// A resource of these files. Only listing and reading can be allowed; a resource has nothing else.
    pub fn new(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
        policy: Policy,
    ) -> Result<Self, WorkspaceConfigError> {
        let files = MemoryWorkspace::new(files, policy)?;
        Ok(Self {
            files,
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

impl Resource for MemoryResource {
    fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError> {
        self.files.list(path)
    }

    fn read(&self, path: &str) -> Result<String, WorkspaceError> {
        self.files.read(path)
    }

    fn description(&self) -> String {
        let given = self.description.as_deref();
        given.unwrap_or("Read-only files.").to_owned()
    }
}
