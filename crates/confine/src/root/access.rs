use crate::path::RelPath;
use rustix::io::Errno;

/// Why an access beneath a root did not happen. None of these names a path of the host.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A deny glob, the write mode or the permissions of the host forbid it. Which of them stays untold, and also
    /// whether there is anything at the path.
    #[error("access to `{0}` is denied")]
    Denied(RelPath),
    /// The path leads out of the root, or into another file system.
    #[error("`{0}` leads out of the root")]
    Escapes(RelPath),
    /// The file has another name, possibly outside the root, and a write would change it there too.
    #[error("`{0}` has another hard link")]
    HardLinked(RelPath),
    /// Nothing is there.
    #[error("`{0}` does not exist")]
    NotFound(RelPath),
    /// It is a pipe, a socket, a device, or a link to nowhere.
    #[error("`{0}` is not a regular file")]
    NotAFile(RelPath),
    /// A file was asked for and it is a directory.
    #[error("`{0}` is a directory")]
    IsADirectory(RelPath),
    /// A part of the path that should be a directory is none.
    #[error("a part of `{0}` is not a directory")]
    NotADirectory(RelPath),
    /// It has more bytes than an operation may move.
    #[error("`{path}` is larger than {limit} bytes")]
    TooLarge {
        /// The path.
        path: RelPath,
        /// The most that is allowed.
        limit: u64,
    },
    /// Its content is no text in UTF-8.
    #[error("`{0}` is not UTF-8 text")]
    NotUtf8(RelPath),
    /// The host failed otherwise, for example because it has no space left.
    #[error("`{path}` cannot be accessed")]
    Io {
        /// The path.
        path: RelPath,
        /// What the host said.
        #[source]
        source: Errno,
    },
}

impl AccessError {
    /// Whether a rule forbids the access, as opposed to an access that failed.
    pub const fn is_denied(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::Escapes(_) | Self::HardLinked(_))
    }

    pub(crate) fn from_errno(error: Errno, path: &RelPath) -> Self {
        let path = path.clone();
        match error {
            Errno::NOENT => Self::NotFound(path),
            Errno::NOTDIR => Self::NotADirectory(path),
            Errno::ISDIR => Self::IsADirectory(path),
            // A loop of links and a walk that renames kept disturbing prove nothing about where they lead.
            Errno::XDEV | Errno::LOOP | Errno::AGAIN => Self::Escapes(path),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::Denied(path),
            Errno::NXIO | Errno::NODEV => Self::NotAFile(path),
            source => Self::Io { path, source },
        }
    }
}
