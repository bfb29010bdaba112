use super::{Policy, WorkspaceConfigError, refusal};
use portolan_confine::{
    Root, ScanLimits, Scanner, restore,
    root::{AccessError, MAX_LISTED},
};
use portolan_core::{
    digest::Digest,
    manifest::Manifest,
    workspace::{Permission, WorkingDirectory, Workspace, WorkspaceError},
};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// A directory of the host under a policy.
///
/// It is opened once; everything goes through that handle, so whatever is done to the path afterwards leads nowhere
/// else. Links are followed as long as they stay inside and lead to nothing that is denied. Scanning, keeping content and
/// restoring see everything, as the policy is for models.
#[derive(Debug)]
pub struct DirectoryWorkspace {
    path: PathBuf,
    /// What a model may reach.
    shown: Root,
    /// The same directory without the deny globs.
    whole: Root,
    policy: Policy,
    scanner: Mutex<Scanner>,
}

impl DirectoryWorkspace {
    /// Opens a directory that is there.
    pub fn open(path: impl AsRef<Path>, policy: Policy) -> Result<Self, WorkspaceConfigError> {
        let whole = Root::open(path.as_ref())?;
        Ok(Self {
            path: path.as_ref().to_owned(),
            shown: whole.clone().denying(policy.deny.clone()),
            whole,
            policy,
            scanner: Mutex::new(Scanner::new(ScanLimits::default())),
        })
    }
}

impl Workspace for DirectoryWorkspace {
    fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError> {
        self.policy.require(Permission::List)?;
        let path = refusal::parse(path)?;
        match self.shown.files(&path) {
            Ok(listing) if listing.truncated => Err(WorkspaceError::Failed(format!(
                "`{path}` has more than the {MAX_LISTED} entries that one listing gives; list a directory below it"
            ))),
            Ok(listing) => Ok(listing.entries.iter().map(ToString::to_string).collect()),
            // Below a file there is nothing, as there is at a name that nobody uses.
            Err(AccessError::NotADirectory(_)) => Ok(Vec::new()),
            Err(error) => Err(refusal::access(error)),
        }
    }

    fn read(&self, path: &str) -> Result<String, WorkspaceError> {
        self.policy.require(Permission::Read)?;
        let path = refusal::parse(path)?;
        self.shown.read_text(&path).map_err(refusal::access)
    }

    fn write(&self, path: &str, content: &str) -> Result<(), WorkspaceError> {
        let mode = self.policy.write_mode()?;
        let path = refusal::parse(path)?;
        let written = self.shown.write(&path, content.as_bytes(), mode);
        written.map(|_| ()).map_err(refusal::access)
    }

    fn working_directory(&self, path: &str) -> Result<WorkingDirectory, WorkspaceError> {
        self.policy.require(Permission::Execute)?;
        let path = refusal::parse(path)?;
        let directory = self.shown.directory(&path).map_err(refusal::access)?;
        Ok(WorkingDirectory {
            path: self.path.join(directory.path().as_str()),
            guard: Box::new(directory),
        })
    }

    fn scan(&self) -> Result<Manifest, WorkspaceError> {
        let mut scanner = self.scanner.lock().unwrap_or_else(PoisonError::into_inner);
        scanner.scan(&self.whole).map_err(|error| refusal::failed(&error))
    }

    fn content(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        let path = refusal::parse(path)?;
        // Whatever a scan gives a digest must be readable here, or it could not be kept.
        let limit = ScanLimits::default().file_bytes;
        self.whole.read_at_most(&path, limit).map_err(refusal::access)
    }

    fn restore(
        &self,
        manifest: &Manifest,
        fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        let mut scanner = self.scanner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fetch = |digest: &Digest| fetch(digest).map_err(Into::into);
        restore(&self.whole, manifest, &mut scanner, &mut fetch)
            .map(|_| ())
            .map_err(|error| refusal::failed(&error))
    }
}
