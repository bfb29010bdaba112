//! Files that survive: what a step changed is kept by content before the step commits, and put back by the next owner.

use super::{Drive, Interrupt};
use crate::ports::Seed;
use portolan_core::{
    digest::Digest,
    failure::{FailureKind, RunFailure},
    manifest::{Entry, Manifest, ManifestChange},
    workspace::{Workspace, WorkspaceError},
};
use portolan_journal::{
    JournalError,
    blob::{BlobError, BlobStore},
};
use std::{collections::HashMap, sync::Arc};

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
    blobs: &dyn BlobStore,
) -> Result<(), WorkspaceError> {
    let present = scan(workspace).await?;
    let mut contents = HashMap::new();
    for entry in present.change_to(manifest).put.values() {
        if let Entry::File { digest, .. } = entry {
            let content = blobs
                .get(*digest)
                .await
                .map_err(|error| WorkspaceError::Failed(error.to_string()))?;
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
    .await
}

/// Fills a fresh workspace and keeps what it begins with. Gives the first manifest and the digest under which it is kept.
pub(super) async fn plant(
    workspace: &Arc<dyn Workspace>,
    seed: Option<Seed>,
    blobs: &dyn BlobStore,
) -> Result<(Manifest, Digest), WorkspaceError> {
    let failed = |error: BlobError| WorkspaceError::Failed(error.to_string());
    if let Some(seed) = seed {
        blobs.put(seed.contents).await.map_err(failed)?;
        restore(workspace, &seed.manifest, blobs).await?;
    }
    let baseline = scan(workspace).await?;
    keep(workspace, &Manifest::default().change_to(&baseline), blobs).await?;
    let encoded = serde_json::to_vec(&baseline).map_err(|error| WorkspaceError::Failed(error.to_string()))?;
    let kept = blobs.put(vec![encoded]).await.map_err(failed)?;
    let digest = kept.first().copied();
    digest.map(|digest| (baseline, digest)).ok_or_else(|| {
        WorkspaceError::Failed("the blob store gave no digest for the first manifest".to_owned())
    })
}

/// Keeps the contents that a change names.
async fn keep(
    workspace: &Arc<dyn Workspace>,
    change: &ManifestChange,
    blobs: &dyn BlobStore,
) -> Result<(), WorkspaceError> {
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
    let kept = blobs
        .put(contents)
        .await
        .map_err(|error| WorkspaceError::Failed(error.to_string()))?;
    let named = change.put.values().filter_map(|entry| match entry {
        Entry::File { digest, .. } => Some(digest),
        Entry::Link { .. } | Entry::Directory | Entry::Unreadable { .. } => None,
    });
    if named.ne(kept.iter()) {
        return Err(WorkspaceError::Failed(
            "a file changed while it was being kept".to_owned(),
        ));
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
        restore(workspace, &self.files, &*self.deps.blobs)
            .await
            .map_err(|error| {
                let message = format!("the files of the last committed step cannot be put back: {error}");
                Interrupt::Fail(RunFailure::new(FailureKind::Quarantined, message))
            })
    }

    /// What the step changed since the last committed one, with its contents kept.
    ///
    /// A workspace that cannot be looked at does not undo a step that ran: the step commits without a change, and the end
    /// of the run reports that its files are not known.
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
            Err(error) => {
                tracing::warn!(run = %self.run.run, %error, "the workspace cannot be looked at after a step");
                Ok(None)
            }
        }
    }

    async fn look(
        &self,
        workspace: &Arc<dyn Workspace>,
    ) -> Result<(Manifest, ManifestChange), WorkspaceError> {
        let now = scan(workspace).await?;
        let change = self.files.change_to(&now);
        keep(workspace, &change, &*self.deps.blobs).await?;
        Ok((now, change))
    }

    /// The files that changed since the start of the run.
    pub(super) async fn artifacts(&self) -> Result<Vec<portolan_core::artifact::Artifact>, String> {
        let Some(workspace) = self.equipment.workspace.clone() else {
            return Ok(Vec::new());
        };
        let (now, _) = self.look(&workspace).await.map_err(|error| error.to_string())?;
        Ok(now.artifacts_since(&self.baseline))
    }
}
