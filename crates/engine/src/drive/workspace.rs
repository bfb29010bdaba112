//! Files that survive: what a step changed is kept by content before the step commits, and put back by the next owner.

use super::{Drive, Interrupt};
use crate::ports::{Deps, Seed};
use portolan_core::{
    artifact::Artifact,
    digest::Digest,
    failure::{FailureKind, RunFailure},
    manifest::{Entry, Manifest, ManifestChange},
    workspace::{Workspace, WorkspaceError},
};
use portolan_journal::{JournalError, blob::BlobError};
use std::{collections::HashMap, sync::Arc};

/// How often a blob store that does not answer is asked, and the first pause, which doubles: some six seconds in all, like
/// the journal.
const MAX_TRIES: u32 = 7;
const FIRST_PAUSE_MS: u64 = 100;

/// Why files could not be kept or put back.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilesError {
    /// The workspace cannot be used, or what is kept is not whole.
    #[error("{0}")]
    Workspace(#[from] WorkspaceError),
    /// The store cannot be used now. That says nothing about the run: it is given back.
    #[error("{0}")]
    Store(BlobError),
}

impl FilesError {
    fn of_blob(error: BlobError) -> Self {
        match error {
            BlobError::Missing(_) | BlobError::Damaged(_) => {
                Self::Workspace(WorkspaceError::Failed(error.to_string()))
            }
            BlobError::Unusable(_) => Self::Store(error),
        }
    }
}

/// Keeps blobs. The same content twice is kept once, so a store that does not answer is simply asked again.
async fn put(deps: &Deps, contents: Vec<Vec<u8>>) -> Result<Vec<Digest>, FilesError> {
    let mut pause_ms = FIRST_PAUSE_MS;
    for _ in 1..MAX_TRIES {
        match deps.blobs.put(contents.clone()).await {
            Err(BlobError::Unusable(_)) => deps.clock.sleep_ms(pause_ms).await,
            put => return put.map_err(FilesError::of_blob),
        }
        pause_ms = pause_ms.saturating_mul(2);
    }
    deps.blobs.put(contents).await.map_err(FilesError::of_blob)
}

/// Reads a blob, in the same way.
async fn get(deps: &Deps, digest: Digest) -> Result<Vec<u8>, FilesError> {
    let mut pause_ms = FIRST_PAUSE_MS;
    for _ in 1..MAX_TRIES {
        match deps.blobs.get(digest).await {
            Err(BlobError::Unusable(_)) => deps.clock.sleep_ms(pause_ms).await,
            got => return got.map_err(FilesError::of_blob),
        }
        pause_ms = pause_ms.saturating_mul(2);
    }
    deps.blobs.get(digest).await.map_err(FilesError::of_blob)
}

/// A blob store that does not answer is a store that does not answer: the run is given back.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn lost_blob(error: BlobError) -> Interrupt {
    Interrupt::Read(JournalError::NotCommitted(error.to_string()))
}

/// Runs file work off the threads that drive runs.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the engine hands blocking work to the runtime"
)]
async fn offload<T: Send + 'static>(
    workspace: &Arc<dyn Workspace>,
    work: impl FnOnce(&dyn Workspace) -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    let workspace = Arc::clone(workspace);
    match tokio::task::spawn_blocking(move || work(&*workspace)).await {
        Ok(done) => done,
        Err(error) => Err(WorkspaceError::Failed(format!(
            "the work on the files was not finished: {error}"
        ))),
    }
}

/// What is in the workspace now.
pub(super) async fn scan(workspace: &Arc<dyn Workspace>) -> Result<Manifest, WorkspaceError> {
    offload(workspace, |workspace| workspace.scan()).await
}

/// Makes the workspace exactly what the manifest says.
pub(super) async fn restore(
    workspace: &Arc<dyn Workspace>,
    manifest: &Manifest,
    deps: &Deps,
) -> Result<(), FilesError> {
    let present = scan(workspace).await?;
    let mut contents = HashMap::new();
    for entry in present.change_to(manifest).put.values() {
        if let Entry::File { digest, .. } = entry {
            let content = get(deps, *digest).await?;
            contents.insert(*digest, content);
        }
    }
    let manifest = manifest.clone();
    offload(workspace, move |workspace| {
        workspace.restore(&manifest, &mut |digest: &Digest| {
            let content = contents.get(digest).cloned();
            content.ok_or_else(|| WorkspaceError::Failed(format!("the content {digest} is not at hand")))
        })
    })
    .await?;
    Ok(())
}

/// Fills a fresh workspace and keeps what it begins with. Gives the first manifest and the digest under which it is kept.
pub(super) async fn plant(
    workspace: &Arc<dyn Workspace>,
    seed: Option<Seed>,
    deps: &Deps,
) -> Result<(Manifest, Digest), FilesError> {
    if let Some(seed) = seed {
        put(deps, seed.contents).await?;
        restore(workspace, &seed.manifest, deps).await?;
    }
    let baseline = scan(workspace).await?;
    keep(workspace, &Manifest::default().change_to(&baseline), deps).await?;
    let encoded = serde_json::to_vec(&baseline).map_err(|error| WorkspaceError::Failed(error.to_string()))?;
    let kept = put(deps, vec![encoded]).await?;
    let digest = kept.first().copied();
    let digest = digest.ok_or_else(|| {
        WorkspaceError::Failed("the blob store gave no digest for the first manifest".to_owned())
    })?;
    Ok((baseline, digest))
}

/// Keeps the contents that a change names.
async fn keep(
    workspace: &Arc<dyn Workspace>,
    change: &ManifestChange,
    deps: &Deps,
) -> Result<(), FilesError> {
    let files = change
        .put
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::File { .. }));
    let paths: Vec<String> = files.map(|(path, _)| path.clone()).collect();
    if paths.is_empty() {
        return Ok(());
    }
    let contents = offload(workspace, move |workspace| {
        paths
            .iter()
            .map(|path| workspace.content(path))
            .collect::<Result<Vec<_>, _>>()
    })
    .await?;
    let kept = put(deps, contents).await?;
    let named = change.put.values().filter_map(|entry| match entry {
        Entry::File { digest, .. } => Some(digest),
        Entry::Link { .. } | Entry::Directory | Entry::Unreadable { .. } => None,
    });
    if named.ne(kept.iter()) {
        let message = "a file changed while it was being kept".to_owned();
        return Err(WorkspaceError::Failed(message).into());
    }
    Ok(())
}

impl Drive<'_> {
    /// Puts back the files of the last committed step, if the beginning left that to the step in doubt.
    pub(super) async fn restore_owed_files(&mut self) -> Result<(), Interrupt> {
        if !std::mem::take(&mut self.restore_owed) {
            return Ok(());
        }
        let Some(workspace) = &self.equipment.workspace else {
            return Ok(());
        };
        restore(workspace, &self.files, self.deps)
            .await
            .map_err(|error| match error {
                FilesError::Store(error) => lost_blob(error),
                FilesError::Workspace(error) => {
                    let message = format!("the files of the last committed step cannot be put back: {error}");
                    Interrupt::Fail(RunFailure::new(FailureKind::Quarantined, message))
                }
            })
    }

    /// What the step changed since the last committed one, with its contents kept.
    ///
    /// A workspace that cannot be looked at does not undo a step that ran: the step commits without a change, and the end
    /// of the run reports that its files are not known. A store that cannot be used is another matter: to commit the step
    /// without its files would lose them for good.
    pub(super) async fn file_change(&mut self) -> Result<Option<ManifestChange>, Interrupt> {
        let Some(workspace) = self.equipment.workspace.clone() else {
            return Ok(None);
        };
        match self.look(&workspace).await {
            Ok((_, change)) if change.is_empty() => Ok(None),
            Ok((now, change)) => {
                self.files = now;
                Ok(Some(change))
            }
            Err(FilesError::Store(error)) => Err(lost_blob(error)),
            Err(FilesError::Workspace(error)) => {
                tracing::warn!(run = %self.run.run, %error, "the workspace cannot be looked at after a step");
                Ok(None)
            }
        }
    }

    async fn look(&self, workspace: &Arc<dyn Workspace>) -> Result<(Manifest, ManifestChange), FilesError> {
        let now = scan(workspace).await?;
        let change = self.files.change_to(&now);
        keep(workspace, &change, self.deps).await?;
        Ok((now, change))
    }

    /// The files that changed since the start of the run, or why they are not known.
    pub(super) async fn artifacts(&self) -> Result<Result<Vec<Artifact>, String>, Interrupt> {
        let Some(workspace) = self.equipment.workspace.clone() else {
            return Ok(Ok(Vec::new()));
        };
        match self.look(&workspace).await {
            Ok((now, _)) => Ok(Ok(now.artifacts_since(&self.baseline))),
            Err(FilesError::Store(error)) => Err(lost_blob(error)),
            Err(FilesError::Workspace(error)) => Ok(Err(error.to_string())),
        }
    }
}
