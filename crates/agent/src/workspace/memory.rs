use super::{
    Policy, WorkspaceConfigError,
    files::{self, File, Files, WriteError},
    refusal,
};
use portolan_confine::root::AccessError;
use portolan_core::{
    digest::Digest,
    manifest::{Entry, Manifest},
    workspace::{Permission, WorkingDirectory, Workspace, WorkspaceError},
};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use super::files::{MAX_MEMORY_BYTES, MAX_MEMORY_FILES};

/// Files in memory under a policy: for tests, and for work that needs no command.
///
/// It has the rules of a directory, but nothing touches the host. A directory is there exactly as long as a file is in it.
#[derive(Debug)]
pub struct MemoryWorkspace {
    files: RwLock<Files>,
    policy: Policy,
}

impl MemoryWorkspace {
    /// A workspace that begins with some files.
    pub fn new(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
        policy: Policy,
    ) -> Result<Self, WorkspaceConfigError> {
        Ok(Self {
            files: RwLock::new(Files::new(files)?),
            policy,
        })
    }

    fn files(&self) -> RwLockReadGuard<'_, Files> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, Files> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workspace for MemoryWorkspace {
    fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError> {
        self.policy.require(Permission::List)?;
        let path = refusal::parse(path)?;
        self.files()
            .list(&path, &self.policy.deny)
            .map_err(refusal::access)
    }

    fn read(&self, path: &str) -> Result<String, WorkspaceError> {
        self.policy.require(Permission::Read)?;
        let path = refusal::parse(path)?;
        files::check(&path, &self.policy.deny).map_err(refusal::access)?;
        let files = self.files();
        let file = files.get(&path).map_err(refusal::access)?;
        let text = std::str::from_utf8(&file.content).map_err(|_| AccessError::NotUtf8(path));
        text.map(str::to_owned).map_err(refusal::access)
    }

    fn write(&self, path: &str, content: &str) -> Result<(), WorkspaceError> {
        let mode = self.policy.write_mode()?;
        let path = refusal::parse(path)?;
        files::check(&path, &self.policy.deny).map_err(refusal::access)?;
        match self.files_mut().write(&path, content.as_bytes(), mode) {
            Ok(()) => Ok(()),
            Err(WriteError::Access(error)) => Err(refusal::access(error)),
            Err(error @ WriteError::Full) => Err(refusal::failed(&error)),
        }
    }

    fn working_directory(&self, _path: &str) -> Result<WorkingDirectory, WorkspaceError> {
        Err(WorkspaceError::Failed(
            "commands cannot run in a workspace that is in memory".to_owned(),
        ))
    }

    fn scan(&self) -> Result<Manifest, WorkspaceError> {
        Ok(self.files().manifest())
    }

    fn content(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        let path = refusal::parse(path)?;
        let files = self.files();
        let file = files.get(&path).map_err(refusal::access)?;
        Ok(file.content.to_vec())
    }

    /// Builds the wanted files aside and takes them over at once, so that a restore that fails changes nothing.
    ///
    /// Links, and directories with nothing in them, cannot be in memory; a manifest that has one is refused.
    fn restore(
        &self,
        manifest: &Manifest,
        fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        let present = self.files().clone();
        let restored = restored(&present, manifest, fetch)?;
        *self.files_mut() = restored;
        Ok(())
    }
}

fn restored(
    present: &Files,
    manifest: &Manifest,
    fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, WorkspaceError>,
) -> Result<Files, WorkspaceError> {
    let failed = |path: &str, text: &str| WorkspaceError::Failed(format!("`{path}` {text}"));
    let mut wanted = Files::default();
    let mut directories = Vec::new();
    for (path, entry) in &manifest.entries {
        let parsed = refusal::parse(path)?;
        if parsed.is_root() || parsed.as_str() != path {
            return Err(failed(path, "is no normalised path of an entry"));
        }
        match entry {
            Entry::File {
                digest,
                size,
                executable,
            } => {
                let file = match present.content_of(path, digest) {
                    Some(content) => File::new(&content, *executable),
                    None => File::new(&fetch(digest)?, *executable),
                };
                if file.digest() != digest || file.content.len() as u64 != *size {
                    return Err(failed(path, "has another content than the manifest says"));
                }
                if wanted.file_above(&parsed).is_some() {
                    return Err(failed(path, "is below a file"));
                }
                if !wanted.put(path.clone(), file) {
                    return Err(refusal::failed(&WriteError::Full));
                }
            }
            Entry::Directory => directories.push(parsed),
            Entry::Link { .. } => return Err(failed(path, "is a link, which cannot be in memory")),
            Entry::Unreadable { .. } => {
                return Err(failed(path, "was not readable, so its content is unknown"));
            }
        }
    }
    match directories.iter().find(|path| !wanted.is_directory(path)) {
        Some(path) => Err(failed(
            path.as_str(),
            "is an empty directory, which cannot be in memory",
        )),
        None => Ok(wanted),
    }
}
