//! Blobs that cannot be kept or read for a while: a store that is away says nothing about the run.

use super::world::{Script, Setup, World};
use portolan_core::{Fut, digest::Digest};
use portolan_engine::{DriveEnd, drive};
use portolan_journal::{
    RunStatus,
    blob::{BlobError, BlobStore, MemoryBlobs},
};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

/// Drives to the end; time moves on whenever somebody waits for it, and file work takes the time that it takes.
async fn drive_patiently(world: &World, owner: u8) -> DriveEnd {
    let launch = world.claim(owner).await.expect("a run to claim");
    let mut driving = std::pin::pin!(drive(&world.deps, launch, &world.stop, |_| {}));
    loop {
        if let Poll::Ready(end) = futures::poll!(&mut driving) {
            return end;
        }
        world.clock.advance_to_next_sleeper();
        tokio::task::yield_now().await;
    }
}

/// Blobs that are not to be had for a while: the next so many requests fail.
#[derive(Debug, Default)]
struct AwayBlobs {
    inner: MemoryBlobs,
    away: AtomicUsize,
}

impl AwayBlobs {
    fn is_away(&self) -> bool {
        let left = self
            .away
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.is_ok()
    }

    fn away<T>() -> Fut<'static, Result<T, BlobError>>
    where
        T: Send + 'static,
    {
        Box::pin(std::future::ready(Err(BlobError::Unusable("away".to_owned()))))
    }
}

impl BlobStore for AwayBlobs {
    fn put(&self, contents: Vec<Vec<u8>>) -> Fut<'_, Result<Vec<Digest>, BlobError>> {
        if self.is_away() {
            return Self::away();
        }
        self.inner.put(contents)
    }

    fn get(&self, digest: Digest) -> Fut<'_, Result<Vec<u8>, BlobError>> {
        if self.is_away() {
            return Self::away();
        }
        self.inner.get(digest)
    }
}

#[tokio::test]
async fn files_that_cannot_be_kept_now_end_no_run_and_are_not_forgotten() {
    let write = json!({"operation": "write", "path": "a.txt", "content": "a note\n"});
    let script = vec![Script::Call("editor", write), Script::Final(json!("ok"))];
    let definition = json!({
        "tools": ["editor"],
        "workspace": {"kind": "memory", "files": {"b.txt": "kept"}, "allow": ["list", "read", "create", "edit"]},
    });
    // Away at every moment in turn: while the workspace is made ready, while the step's files are kept, at the end.
    for healthy in 0..8 {
        for away in [1, 10] {
            let mut world = Setup::new(script.clone())
                .with(definition.clone())
                .admitted()
                .await;
            let blobs = Arc::new(AwayBlobs::default());
            world.deps.blobs = Arc::new(HealthyFor {
                blobs: Arc::clone(&blobs),
                healthy: AtomicUsize::new(healthy),
                away,
            });
            for owner in 1..=5 {
                if world.row().await.progress.status.is_terminal() {
                    break;
                }
                drive_patiently(&world, owner).await;
            }
            let case = format!("away {away} times after {healthy}");
            assert_eq!(world.row().await.progress.status, RunStatus::Succeeded, "{case}");
            let kinds = world.kinds().await;
            assert!(
                kinds.contains(&"artifact_created".to_owned()),
                "{case}: {kinds:?}"
            );
            assert_eq!(world.keys(), ["RUN:llm-1:1", "RUN:llm-2:1"], "{case}");
        }
    }
}

/// Blobs that are to be had so many times, then are away for a while, then are back for good.
#[derive(Debug)]
struct HealthyFor {
    blobs: Arc<AwayBlobs>,
    healthy: AtomicUsize,
    away: usize,
}

impl HealthyFor {
    fn count(&self) {
        let left = self
            .healthy
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
                usize::MAX => None,
                0 => Some(usize::MAX),
                left => Some(left - 1),
            });
        if left == Ok(0) {
            self.blobs.away.store(self.away, Ordering::SeqCst);
        }
    }
}

impl BlobStore for HealthyFor {
    fn put(&self, contents: Vec<Vec<u8>>) -> Fut<'_, Result<Vec<Digest>, BlobError>> {
        self.count();
        self.blobs.put(contents)
    }

    fn get(&self, digest: Digest) -> Fut<'_, Result<Vec<u8>, BlobError>> {
        self.count();
        self.blobs.get(digest)
    }
}
