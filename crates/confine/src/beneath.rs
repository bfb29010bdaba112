//! Opening beneath a directory handle by the kernel's own resolution.
//!
//! `openat2` walks the path and refuses, in the same walk, to leave the directory, to follow the links of `/proc`, and
//! to cross into another mount. There is no check that could be overtaken by a rename.

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};

/// How often a walk that a concurrent rename disturbed is tried again before it counts as an escape.
const DISTURBED_TRIES: usize = 16;

/// The flags of every open: not inherited by commands, no wait for the other end of a pipe, no terminal taken.
pub(crate) const BASE: OFlags = OFlags::CLOEXEC.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// What a walk does with symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Follows those that stay beneath the directory.
    Inside,
    /// Follows none, not even as the last part.
    Refused,
}

/// Opens a path beneath a directory.
pub(crate) fn open<Fd: AsFd, P: rustix::path::Arg + Copy>(
    directory: Fd,
    path: P,
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    if links == Links::Refused {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    // A handle by path alone opens nothing, and the kernel refuses flags that say how to open.
    let base = if flags.contains(OFlags::PATH) {
        OFlags::CLOEXEC
    } else {
        BASE
    };
    let mut tries = 0;
    loop {
        match openat2(directory.as_fd(), path, base | flags, mode, resolve) {
            Err(Errno::AGAIN) if tries < DISTURBED_TRIES => tries += 1,
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
