//! A directory whose content may be touched, and the operations on it.
//!
//! A [`Root`] owns a handle and a set of deny globs. Every operation opens beneath the handle, judges what was opened
//! by that handle (only regular files and directories are accepted), and matches the deny globs twice: against the path
//! as it was asked for and against the path at which a link led. Links are followed as long as they stay inside.

mod access;
mod list;
mod read;
mod resolve;
mod write;

pub use access::AccessError;
pub use list::{EntryKind, ListedEntry, Listing, MAX_LISTED};
pub use read::{MAX_READ_BYTES, Stat};
pub use write::{MAX_WRITE_BYTES, WriteMode, Written};

pub(crate) use write::Temporary;

use crate::{
    beneath::{self, Links},
    globs::DenyGlobs,
    path::RelPath,
};
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};
use std::{path::Path, sync::Arc};

/// A directory beneath which files are listed, read and written.
#[derive(Debug, Clone)]
pub struct Root {
    directory: Arc<OwnedFd>,
    deny: DenyGlobs,
}

/// A directory that could not become a root.
#[derive(Debug, thiserror::Error)]
#[error("the root directory cannot be opened")]
pub struct RootError(#[source] Errno);

/// An open directory beneath a root, in which a command can run.
#[derive(Debug, Clone)]
pub struct Directory {
    handle: Arc<OwnedFd>,
    path: RelPath,
}

impl Root {
    /// Opens a directory of the host as a root that denies nothing. Links in this path are the caller's own.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | beneath::BASE;
        let directory = openat(CWD, path, flags, Mode::empty()).map_err(RootError)?;
        Ok(Self {
            directory: Arc::new(directory),
            deny: DenyGlobs::none(),
        })
    }

    /// The same root with deny globs.
    #[must_use]
    pub fn denying(mut self, deny: DenyGlobs) -> Self {
        self.deny = deny;
        self
    }

    /// Opens a directory beneath the root, for example to run a command in it.
    pub fn directory(&self, path: &RelPath) -> Result<Directory, AccessError> {
        let (handle, resolved) = self.open_resolved(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Directory {
            handle: Arc::new(handle),
            path: resolved,
        })
    }

    /// The handle of the directory.
    pub(crate) fn handle(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Opens without following any link, for callers that know where everything is.
    pub(crate) fn open_plain(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        beneath::open(
            self.handle(),
            &*path.bytes(),
            flags,
            Mode::empty(),
            Links::Refused,
        )
    }

    /// Refuses a path that the deny globs match.
    fn check(&self, path: &RelPath) -> Result<(), AccessError> {
        if self.deny.denies(path) {
            Err(AccessError::Denied(path.clone()))
        } else {
            Ok(())
        }
    }

    /// Opens a path and tells where it led. Both paths have passed the deny globs.
    fn open_resolved(&self, path: &RelPath, flags: OFlags) -> Result<(OwnedFd, RelPath), AccessError> {
        self.check(path)?;
        // Without a link on the way the path is where it says it is. Most paths are like that.
        match self.open_plain(path, flags) {
            Ok(opened) => return Ok((opened, path.clone())),
            Err(Errno::LOOP) => {}
            Err(error) => return Err(AccessError::from_errno(error, path)),
        }
        let opened = match beneath::open(self.handle(), &*path.bytes(), flags, Mode::empty(), Links::Inside) {
            Ok(opened) => opened,
            Err(error) => return Err(self.untold(AccessError::from_errno(error, path), path)),
        };
        let resolved = resolve::path_of(self.handle(), opened.as_fd(), path)?;
        if self.deny.denies(&resolved) {
            // The name of what is denied stays untold.
            return Err(AccessError::Denied(path.clone()));
        }
        Ok((opened, resolved))
    }

    /// Keeps it untold what is or is not below a denied directory that a link leads to.
    fn untold(&self, error: AccessError, path: &RelPath) -> AccessError {
        match path
            .parent()
            .map(|parent| self.open_resolved(&parent, OFlags::PATH))
        {
            Some(Err(AccessError::Denied(_))) => AccessError::Denied(path.clone()),
            Some(_) | None => error,
        }
    }
}

impl Directory {
    /// Its path beneath the root, links resolved.
    pub const fn path(&self) -> &RelPath {
        &self.path
    }

    /// A path that leads to this handle in a child process, until that runs its program.
    pub(crate) fn path_for_child(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }
}
