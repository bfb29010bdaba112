//! Workspaces of runs on this host: a directory each, below the data directory.

use portolan_agent::workspace::{DirectoryWorkspace, MemoryWorkspace, Policy, PolicyError};
use portolan_core::{
    agent::{WorkspaceKind, WorkspaceSource},
    workspace::{Workspace, WorkspaceError},
};
use portolan_engine::WorkspaceHost;
use portolan_journal::RunRef;
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The folder of workspaces in a data directory.
const FOLDER: &str = "workspaces";
/// Where those of an earlier process wait to be removed.
const LEFT_OVER: &str = "workspaces.left-over";

/// Opens and removes workspaces.
#[derive(Debug)]
pub struct Workspaces {
    root: PathBuf,
}

impl Workspaces {
    /// Begins without any workspace. What an earlier process left is moved away and removed in the background: a run gets
    /// its files from its journal, whatever lay there. Blocks.
    pub fn open(data_directory: &Path) -> io::Result<Self> {
        let root = data_directory.join(FOLDER);
        let left_over = data_directory.join(LEFT_OVER);
        remove(&left_over)?;
        match fs::rename(&root, &left_over) {
            Ok(()) => {
                std::thread::spawn(move || {
                    if let Err(error) = remove(&left_over) {
                        tracing::warn!(%error, "old workspaces could not be removed");
                    }
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        make_private(&root)?;
        Ok(Self { root })
    }

    fn path(&self, run: RunRef) -> PathBuf {
        self.root.join(run.run.to_string())
    }
}

impl WorkspaceHost for Workspaces {
    fn open(&self, run: RunRef, source: &WorkspaceSource) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        // The path of the host is for the log: what fails here ends up in the run's error.
        let failed = |what: &str, error: &(dyn std::error::Error + 'static)| {
            tracing::warn!(run = %run.run, error, "{what}");
            WorkspaceError::Failed(what.to_owned())
        };
        let policy = policy(source).map_err(|error| WorkspaceError::Failed(error.to_string()))?;
        match source.kind {
            WorkspaceKind::Memory => {
                let workspace = MemoryWorkspace::new([], policy)
                    .map_err(|error| failed("the workspace in memory cannot be made", &error))?;
                Ok(Arc::new(workspace))
            }
            WorkspaceKind::Directory => {
                let path = self.path(run);
                make_private(&path).map_err(|error| failed("the directory cannot be made", &error))?;
                let workspace = DirectoryWorkspace::open(&path, policy)
                    .map_err(|error| failed("the directory cannot be opened", &error))?;
                Ok(Arc::new(workspace))
            }
        }
    }

    fn discard(&self, run: RunRef) {
        if let Err(error) = remove(&self.path(run)) {
            tracing::warn!(run = %run.run, %error, "a workspace could not be removed");
        }
    }
}

/// What a workspace allows.
pub(crate) fn policy(source: &WorkspaceSource) -> Result<Policy, PolicyError> {
    let allow = source.allow.clone().unwrap_or_else(|| Policy::EDITING.to_vec());
    Policy::new(allow, &source.deny_globs)
}

fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_core::ids::{RunId, TenantId};

    fn source(kind: WorkspaceKind) -> WorkspaceSource {
        WorkspaceSource {
            kind,
            from: None,
            files: Default::default(),
            allow: None,
            deny_globs: Vec::new(),
        }
    }

    #[test]
    fn a_workspace_is_there_until_it_is_discarded_and_none_survives_a_start() {
        let data = tempfile::tempdir().expect("made");
        let run = RunRef {
            tenant: TenantId::from_bytes([1; 16]),
            run: RunId::from_bytes([2; 16]),
        };
        let workspaces = Workspaces::open(data.path()).expect("opens");
        let workspace = workspaces
            .open(run, &source(WorkspaceKind::Directory))
            .expect("opens");
        workspace.write("a.txt", "1").expect("may create");
        let path = workspaces.path(run);
        assert!(path.join("a.txt").exists());
        workspaces.discard(run);
        assert!(!path.exists());
        workspaces
            .open(run, &source(WorkspaceKind::Directory))
            .expect("opens");
        let again = Workspaces::open(data.path()).expect("opens");
        assert!(!again.path(run).exists());
        let memory = again.open(run, &source(WorkspaceKind::Memory)).expect("opens");
        memory.write("b.txt", "1").expect("may create");
        assert!(!again.path(run).exists(), "memory touches no disk");
    }
}
