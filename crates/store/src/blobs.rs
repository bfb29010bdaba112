//! Blobs in files, named by their digest: `blobs/aa/<digest>`.
//!
//! A file appears under its name only when its content is on the disk, so a crash leaves whole blobs and stray temporary
//! files, and nothing in between.

use portolan_core::{Fut, digest::Digest};
use portolan_journal::blob::{BlobError, BlobStore};
use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Blobs in a data directory. One process uses it: the one that holds the directory's lock.
#[derive(Debug, Clone)]
pub struct FileBlobs {
    root: Arc<Path>,
    /// Numbers the temporary files of this process.
    next: Arc<AtomicU64>,
}

impl FileBlobs {
    /// Opens the blobs of a data directory and clears away what a crash left behind. Blocks.
    pub fn open(data_directory: &Path) -> Result<Self, BlobError> {
        let root = data_directory.join("blobs");
        let open = || -> io::Result<()> {
            make_private(&root)?;
            make_private(&root.join("tmp"))?;
            for stray in fs::read_dir(root.join("tmp"))? {
                fs::remove_file(stray?.path())?;
            }
            sync_directory(&root)?;
            sync_directory(data_directory)
        };
        open().map_err(|error| unusable(&error))?;
        Ok(Self {
            root: root.into(),
            next: Arc::default(),
        })
    }

    /// The blobs of a data directory that are only read: nothing is made or cleared away.
    pub fn read_only(data_directory: &Path) -> Self {
        Self {
            root: data_directory.join("blobs").into(),
            next: Arc::default(),
        }
    }

    fn path(&self, digest: &Digest) -> (PathBuf, PathBuf) {
        let name = digest.to_string();
        let shelf = self.root.join(&name[..2]);
        let path = shelf.join(&name);
        (shelf, path)
    }

    fn put_all(&self, contents: &[Vec<u8>]) -> io::Result<Vec<Digest>> {
        let mut shelves = BTreeSet::new();
        let mut digests = Vec::with_capacity(contents.len());
        for content in contents {
            let digest = Digest::of(content);
            let (shelf, path) = self.path(&digest);
            if !is_kept(&path, content)? {
                make_private(&shelf)?;
                self.write(&path, content)?;
            }
            // A file that was there may be one that another call has not finished with.
            shelves.insert(shelf);
            digests.push(digest);
        }
        for shelf in &shelves {
            sync_directory(shelf)?;
        }
        if !shelves.is_empty() {
            sync_directory(&self.root)?;
        }
        Ok(digests)
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let temporary = self.root.join("tmp").join(number.to_string());
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    }

    fn read(&self, digest: Digest) -> Result<Vec<u8>, BlobError> {
        let (_, path) = self.path(&digest);
        let content = fs::read(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BlobError::Missing(digest),
            _ => unusable(&error),
        })?;
        if Digest::of(&content) == digest {
            Ok(content)
        } else {
            Err(BlobError::Damaged(digest))
        }
    }
}

impl BlobStore for FileBlobs {
    fn put(&self, contents: Vec<Vec<u8>>) -> Fut<'_, Result<Vec<Digest>, BlobError>> {
        let blobs = self.clone();
        Box::pin(blocking(move || {
            blobs.put_all(&contents).map_err(|error| unusable(&error))
        }))
    }

    fn get(&self, digest: Digest) -> Fut<'_, Result<Vec<u8>, BlobError>> {
        let blobs = self.clone();
        Box::pin(blocking(move || blobs.read(digest)))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| BlobError::Unusable(error.to_string()))?
}

/// Whether the file holds exactly that. A damaged one is written anew.
fn is_kept(path: &Path, content: &[u8]) -> io::Result<bool> {
    match fs::read(path) {
        Ok(kept) => Ok(kept == content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn unusable(error: &io::Error) -> BlobError {
    BlobError::Unusable(error.to_string())
}
