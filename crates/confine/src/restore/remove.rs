//! Removing entries by handle, never through a link.

use super::{RestoreError, in_parent};
use crate::{path::RelPath, root::Root};
use rustix::{
    fd::{AsRawFd, OwnedFd},
    fs::{AtFlags, FileType, Mode, OFlags, chmod, fstat, statat, unlinkat},
    io::Errno,
};

/// Removes a file, a link, something that is neither, or an empty directory. What is gone already is as good.
pub(super) fn entry(root: &Root, path: &RelPath) -> Result<(), RestoreError> {
    let removed = in_parent(root, path, |parent, name| {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let flags = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        unlinkat(parent, name, flags)
    });
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(source) => Err(RestoreError::Io {
            path: path.clone(),
            source,
        }),
    }
}

/// Gives the owner all rights on a directory that lacks some, and tells whether that changed anything.
pub(super) fn open_directory(root: &Root, path: &RelPath) -> bool {
    let Ok(directory) = root.open_plain(path, OFlags::PATH | OFlags::DIRECTORY) else {
        return false;
    };
    let Ok(stat) = fstat(&directory) else { return false };
    let mode = stat.st_mode & 0o777;
    mode & 0o700 != 0o700 && chmod(path_of_handle(&directory), Mode::from_raw_mode(mode | 0o700)).is_ok()
}

/// A path that leads to an open handle, for calls that take no handle by path.
pub(super) fn path_of_handle(handle: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}
