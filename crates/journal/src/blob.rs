//! The port to content-addressed blobs: file contents and manifests, too large or too many for journal rows.

use portolan_core::{Fut, digest::Digest};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Why a blob could not be kept or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// Nothing is kept under that digest.
    #[error("no blob {0} is kept")]
    Missing(Digest),
    /// What is kept under that digest has another one.
    #[error("the blob {0} is damaged")]
    Damaged(Digest),
    /// The blob could not be written or read.
    #[error("the blob store cannot be used: {0}")]
    Unusable(String),
}

/// A store of blobs. `put` answers only when the blob survives a crash; the same content twice is kept once.
pub trait BlobStore: Send + Sync + std::fmt::Debug {
    /// Keeps blobs.
    fn put(&self, contents: Vec<Vec<u8>>) -> Fut<'_, Result<Vec<Digest>, BlobError>>;

    /// Reads a blob and checks it against its digest.
    fn get(&self, digest: Digest) -> Fut<'_, Result<Vec<u8>, BlobError>>;
}

/// Blobs in memory, for embedding and tests.
#[derive(Debug, Default)]
pub struct MemoryBlobs(Mutex<HashMap<Digest, Vec<u8>>>);

impl BlobStore for MemoryBlobs {
    fn put(&self, contents: Vec<Vec<u8>>) -> Fut<'_, Result<Vec<Digest>, BlobError>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let digests = contents
            .into_iter()
            .map(|content| {
                let digest = Digest::of(&content);
                kept.entry(digest).or_insert(content);
                digest
            })
            .collect();
        Box::pin(std::future::ready(Ok(digests)))
    }

    fn get(&self, digest: Digest) -> Fut<'_, Result<Vec<u8>, BlobError>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let blob = kept.get(&digest).cloned().ok_or(BlobError::Missing(digest));
        Box::pin(std::future::ready(blob))
    }
}
