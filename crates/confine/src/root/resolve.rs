//! Where an opened handle is, relative to the root.

use super::AccessError;
use crate::path::RelPath;
use rustix::{
    fd::{AsRawFd, BorrowedFd},
    fs::{fstat, readlink},
    io::Errno,
};

/// The path of an opened handle beneath the root. `asked` names it in errors.
pub(super) fn path_of(
    root: BorrowedFd<'_>,
    opened: BorrowedFd<'_>,
    asked: &RelPath,
) -> Result<RelPath, AccessError> {
    let failed = |error| AccessError::from_errno(error, asked);
    if fstat(opened).map_err(failed)?.st_nlink == 0 {
        // The kernel would print a removed file with a suffix that could as well be a part of its name.
        return Err(AccessError::NotFound(asked.clone()));
    }
    let root = kernel_path(root).map_err(failed)?;
    let opened = kernel_path(opened).map_err(failed)?;
    let below = opened.strip_prefix(root.strip_suffix(b"/").unwrap_or(&root));
    match below {
        Some(below) if below.is_empty() || below.starts_with(b"/") => {
            RelPath::from_kernel(below).map_err(|_| failed(Errno::NAMETOOLONG))
        }
        _ => Err(AccessError::Escapes(asked.clone())),
    }
}

fn kernel_path(handle: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    readlink(format!("/proc/self/fd/{}", handle.as_raw_fd()), Vec::new()).map(std::ffi::CString::into_bytes)
}
