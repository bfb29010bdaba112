//! Blobs in the database, so that a run can be taken over by a replica on another machine.
//!
//! They are written in portions of bounded weight, each a statement of its own: what a crash leaves is whole blobs that nobody
//! refers to, as with files.

use super::{
    PostgresStore, Queue,
    fault::Fault,
    lane::{Commit, Write},
    read,
};
use deadpool_postgres::ClientWrapper;
use portolan_core::{Fut, digest::Digest};
use portolan_journal::{
    JournalError,
    blob::{BlobError, BlobStore},
};
use std::{mem, sync::Arc};

/// What one statement carries, unless a single blob is heavier.
const PORTION: usize = 4 << 20;

/// The blobs of a store.
#[derive(Debug, Clone)]
pub struct PostgresBlobs(Arc<PostgresStore>);

impl PostgresBlobs {
    /// The blobs that lie beside the runs of this store.
    pub const fn new(store: Arc<PostgresStore>) -> Self {
        Self(store)
    }
}

/// Some blobs.
struct Keep(Vec<(Digest, Vec<u8>)>);

impl Write for Keep {
    type Answer = ();
    const COMMIT: Commit = Commit::Itself;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<(), Fault>> {
        Box::pin(async move {
            let (digests, contents): (Vec<&[u8]>, Vec<&[u8]>) = self
                .0
                .iter()
                .map(|(digest, content)| (digest.0.as_slice(), content.as_slice()))
                .unzip();
            // What is damaged is written anew.
            let sql = "INSERT INTO blobs AS b (digest, content)
                SELECT DISTINCT ON (digest) digest, content FROM unnest($1::bytea[], $2::bytea[]) AS a (digest, content)
                ORDER BY digest
                ON CONFLICT (digest) DO UPDATE SET content = excluded.content WHERE b.content <> excluded.content";
            let statement = client.prepare_cached(sql).await.map_err(Fault::Before)?;
            client.execute(&statement, &[&digests, &contents]).await?;
            Ok(())
        })
    }
}

fn unusable(error: &JournalError) -> BlobError {
    BlobError::Unusable(error.to_string())
}

impl BlobStore for PostgresBlobs {
    fn put(&self, contents: Vec<Vec<u8>>) -> Fut<'_, Result<Vec<Digest>, BlobError>> {
        Box::pin(async move {
            let mut digests = Vec::with_capacity(contents.len());
            let (mut portion, mut bytes) = (Vec::new(), 0_usize);
            for content in contents {
                let digest = Digest::of(&content);
                digests.push(digest);
                if bytes.saturating_add(content.len()) > PORTION && !portion.is_empty() {
                    self.keep(mem::take(&mut portion)).await?;
                    bytes = 0;
                }
                bytes = bytes.saturating_add(content.len());
                portion.push((digest, content));
            }
            if !portion.is_empty() {
                self.keep(portion).await?;
            }
            Ok(digests)
        })
    }

    fn get(&self, digest: Digest) -> Fut<'_, Result<Vec<u8>, BlobError>> {
        Box::pin(async move {
            let found = self.0.reading(move |client| Box::pin(read::blob(client, digest)));
            let content = found.await.map_err(|error| unusable(&error))?;
            let content = content.ok_or(BlobError::Missing(digest))?;
            if Digest::of(&content) == digest {
                Ok(content)
            } else {
                Err(BlobError::Damaged(digest))
            }
        })
    }
}

impl PostgresBlobs {
    async fn keep(&self, portion: Vec<(Digest, Vec<u8>)>) -> Result<(), BlobError> {
        // The queue is that of the first digest: any will do, and they spread.
        let queue = portion.first().map_or(Queue::Rest, |(digest, _)| {
            let [first, ..] = digest.0;
            Queue::Of(portolan_core::ids::RunId::from_bytes([first; 16]))
        });
        let kept = self.0.write(queue, Keep(portion)).await;
        kept.map_err(|error| unusable(&error))
    }
}
