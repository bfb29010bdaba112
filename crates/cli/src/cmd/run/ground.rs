//! What an embedded run works on: a copy of a folder, the folder itself, or the files of its definition.

use crate::{Failure, compose::policy, failure::OrFail as _, folder};
use portolan_agent::workspace::{DirectoryWorkspace, MemoryWorkspace};
use portolan_core::{
    agent::{FileContent, WorkspaceKind, WorkspaceSource},
    workspace::{Workspace, WorkspaceError},
};
use portolan_engine::WorkspaceHost;
use portolan_journal::RunRef;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// Where the files come from.
#[derive(Debug)]
pub(super) enum Origin {
    /// A folder, of which a copy is changed.
    Folder(PathBuf),
    /// The definition.
    Definition(BTreeMap<String, FileContent>),
    /// A folder that is changed itself: what was there before is not kept.
    InPlace,
}

impl Origin {
    /// The content of a file before the run, if it is known.
    pub(super) fn before(&self, path: &str) -> Option<Vec<u8>> {
        match self {
            Self::Folder(folder) => fs::read(folder.join(path)).ok(),
            Self::Definition(files) => files.get(path).and_then(FileContent::bytes),
            Self::InPlace => None,
        }
    }
}

/// The files of one embedded run. What was copied goes with this value.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) origin: Origin,
    workspace: Arc<dyn Workspace>,
    _copy: Option<TempDir>,
}

impl Ground {
    /// Lays out what the definition and the flags say; `None` if the agent has no workspace.
    pub(super) fn lay(
        source: Option<&WorkspaceSource>,
        directory: Option<&Path>,
        in_place: bool,
    ) -> Result<Option<Self>, Failure> {
        let Some(source) = source else {
            return match directory {
                None => Ok(None),
                Some(_) => Err(Failure::usage(
                    "the agent has no workspace, so --workspace has nothing to fill",
                )
                .hint("add [workspace] with kind = \"directory\" to its file")),
            };
        };
        let policy = policy(source).or_usage(|| "the workspace of the agent is not valid".to_owned())?;
        let open = |path: &Path| -> Result<Arc<dyn Workspace>, Failure> {
            let workspace = DirectoryWorkspace::open(path, policy.clone());
            Ok(Arc::new(
                workspace.or_usage(|| format!("{} is no workspace", path.display()))?,
            ))
        };
        match (directory, source.kind, in_place) {
            (Some(directory), _, true) => Ok(Some(Self {
                origin: Origin::InPlace,
                workspace: open(directory)?,
                _copy: None,
            })),
            (Some(directory), _, false) => {
                let copy = scratch()?;
                folder::copy(directory, copy.path())?;
                Ok(Some(Self {
                    origin: Origin::Folder(directory.to_owned()),
                    workspace: open(copy.path())?,
                    _copy: Some(copy),
                }))
            }
            (None, WorkspaceKind::Directory, _) => {
                let copy = scratch()?;
                for (path, bytes) in contents(&source.files)? {
                    folder::write(copy.path(), &path, &bytes)?;
                }
                Ok(Some(Self {
                    origin: Origin::Definition(source.files.clone()),
                    workspace: open(copy.path())?,
                    _copy: Some(copy),
                }))
            }
            (None, WorkspaceKind::Memory, _) => {
                let files = contents(&source.files)?;
                let workspace = MemoryWorkspace::new(files, policy)
                    .or_usage(|| "the files of the workspace are not valid".to_owned())?;
                Ok(Some(Self {
                    origin: Origin::Definition(source.files.clone()),
                    workspace: Arc::new(workspace),
                    _copy: None,
                }))
            }
        }
    }

    /// The content of a file now.
    pub(super) fn after(&self, path: &str) -> Option<Vec<u8>> {
        self.workspace.content(path).ok()
    }
}

/// Hands the one workspace of a command to whoever equips its run.
#[derive(Debug)]
pub(super) struct OneWorkspace(pub(super) Option<Arc<dyn Workspace>>);

impl OneWorkspace {
    pub(super) fn of(ground: Option<&Ground>) -> Self {
        Self(ground.map(|ground| Arc::clone(&ground.workspace)))
    }
}

impl WorkspaceHost for OneWorkspace {
    fn open(&self, _run: RunRef, _source: &WorkspaceSource) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        self.0
            .clone()
            .ok_or_else(|| WorkspaceError::Failed("there is no workspace".to_owned()))
    }

    fn discard(&self, _run: RunRef) {}
}

fn scratch() -> Result<TempDir, Failure> {
    tempfile::Builder::new()
        .prefix("portolan-run-")
        .tempdir()
        .or_unavailable(|| "a temporary directory cannot be made".to_owned())
}

fn contents(files: &BTreeMap<String, FileContent>) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let bytes = files.iter().map(|(path, content)| {
        let bytes = content.bytes();
        let bytes = bytes.ok_or_else(|| Failure::usage(format!("the content of {path:?} is no base64")))?;
        Ok((path.clone(), bytes))
    });
    bytes.collect()
}
