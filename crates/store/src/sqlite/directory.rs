//! The data directory: made for its owner alone, and held by one process.

use rustix::fs::FlockOperation;
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// A data directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It could not be made or entered.
    #[error("the data directory {} cannot be used", .directory.display())]
    Unusable {
        /// Which.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process holds it.
    #[error("the data directory {} is in use by another process", .directory.display())]
    InUse {
        /// Which.
        directory: PathBuf,
    },
}

/// The hold on a directory. It ends with this value, and with the process, however that ends.
#[derive(Debug)]
pub struct DirectoryLock(#[expect(dead_code, reason = "the lock lives as long as the open file")] File);

/// Makes the directory and takes hold of it.
pub fn hold_directory(directory: &Path) -> Result<DirectoryLock, DirectoryError> {
    let unusable = |source| DirectoryError::Unusable {
        directory: directory.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(unusable)?;
    let mode = std::fs::metadata(directory)
        .map_err(unusable)?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        tracing::warn!(directory = %directory.display(), mode = format!("{:o}", mode & 0o777), "other users may enter the data directory");
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(directory.join("lock"))
        .map_err(unusable)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(DirectoryLock(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(DirectoryError::InUse {
            directory: directory.to_owned(),
        }),
        Err(errno) => Err(unusable(errno.into())),
    }
}
