use super::{AccessError, Root};
use crate::{
    beneath::{self, Links},
    name,
    path::RelPath,
};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{
        AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fchmod, fchown, fstat, mkdirat, renameat_with,
        statat, unlinkat,
    },
    io::{Errno, write},
};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes that one write takes.
pub const MAX_WRITE_BYTES: u64 = 16 * 1024 * 1024;

/// How many names are tried for a file that is not yet complete.
const TEMPORARY_TRIES: usize = 64;

/// What a write is allowed to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Only a new file may be made.
    Create,
    /// Only a file that exists may be changed.
    Edit,
    /// Both.
    CreateOrEdit,
}

/// What a write was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// There was no file.
    Created,
    /// The content of a file was replaced as a whole.
    Replaced,
}

/// Where a write would go, found out before anything is changed.
enum Target {
    New {
        parent: OwnedFd,
        missing: Vec<Vec<u8>>,
        name: Vec<u8>,
    },
    Existing {
        parent: OwnedFd,
        name: Vec<u8>,
        stat: Stat,
    },
}

impl Root {
    /// Writes a whole file, and makes the directories that it needs.
    ///
    /// The content goes to a new file beside the target, which then takes its place: whoever reads sees the old content
    /// or the new one, and a write that fails leaves the old one. Whether the mode allows it is decided first; a refusal
    /// changes nothing and does not tell whether there is a file. A link that stays inside is written through.
    pub fn write(&self, path: &RelPath, content: &[u8], mode: WriteMode) -> Result<Written, AccessError> {
        if content.len() as u64 > MAX_WRITE_BYTES {
            return Err(AccessError::TooLarge {
                path: path.clone(),
                limit: MAX_WRITE_BYTES,
            });
        }
        let target = match self.target(path) {
            Ok(target) => target,
            // With only half of the rights, the kind of what is there is not told either.
            Err(error) if mode != WriteMode::CreateOrEdit && tells_existence(&error) => {
                return Err(AccessError::Denied(path.clone()));
            }
            Err(error) => return Err(error),
        };
        let failed = |error| AccessError::from_errno(error, path);
        match (target, mode) {
            (Target::New { .. }, WriteMode::Edit) | (Target::Existing { .. }, WriteMode::Create) => {
                Err(AccessError::Denied(path.clone()))
            }
            (
                Target::New {
                    parent,
                    missing,
                    name,
                },
                WriteMode::Create | WriteMode::CreateOrEdit,
            ) => {
                let parent = make_directories(parent, &missing).map_err(failed)?;
                match create_file(parent.as_fd(), &name, content) {
                    Ok(()) => Ok(Written::Created),
                    // Somebody else made it in the meantime, so that it would be an edit of a file nobody judged.
                    Err(Errno::EXIST) => Err(AccessError::Denied(path.clone())),
                    Err(error) => Err(failed(error)),
                }
            }
            (Target::Existing { parent, name, stat }, WriteMode::Edit | WriteMode::CreateOrEdit) => {
                if stat.st_nlink > 1 {
                    return Err(AccessError::HardLinked(path.clone()));
                }
                replace_file(parent.as_fd(), &name, content, Some(&stat)).map_err(failed)?;
                Ok(Written::Replaced)
            }
        }
    }

    /// Removes a file or a link; a link's target stays.
    pub fn remove(&self, path: &RelPath) -> Result<(), AccessError> {
        self.check(path)?;
        let (Some(parent), Some(last)) = (path.parent(), path.file_name()) else {
            return Err(AccessError::IsADirectory(path.clone()));
        };
        let (directory, resolved) = self.open_resolved(&parent, OFlags::PATH | OFlags::DIRECTORY)?;
        let name = name::decode(last);
        let failed = |error| AccessError::from_errno(error, path);
        self.check(&resolved.child(&name).map_err(|_| failed(Errno::NAMETOOLONG))?)?;
        let name: &[u8] = &name;
        match unlinkat(&directory, name, AtFlags::empty()) {
            // What the kernel says of a directory differs between file systems.
            Err(Errno::PERM | Errno::ISDIR) if is_directory(directory.as_fd(), name) => {
                Err(AccessError::IsADirectory(path.clone()))
            }
            other => other.map_err(failed),
        }
    }

    fn target(&self, path: &RelPath) -> Result<Target, AccessError> {
        match self.open_resolved(path, OFlags::PATH) {
            Ok((opened, resolved)) => self.existing_target(path, opened.as_fd(), &resolved),
            Err(AccessError::NotFound(_)) => self.new_target(path),
            Err(error) => Err(error),
        }
    }

    fn existing_target(
        &self,
        path: &RelPath,
        opened: BorrowedFd<'_>,
        resolved: &RelPath,
    ) -> Result<Target, AccessError> {
        let failed = |error| AccessError::from_errno(error, path);
        let stat = fstat(opened).map_err(failed)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(AccessError::IsADirectory(path.clone())),
            _ => return Err(AccessError::NotAFile(path.clone())),
        }
        let (Some(parent), Some(last)) = (resolved.parent(), resolved.file_name()) else {
            return Err(AccessError::IsADirectory(path.clone()));
        };
        let name = name::decode(last).into_owned();
        let parent = self
            .open_plain(&parent, OFlags::PATH | OFlags::DIRECTORY)
            .map_err(failed)?;
        // The file that was judged must be the one that gets replaced.
        let there = statat(&parent, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        if (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino) {
            Ok(Target::Existing {
                parent,
                name,
                stat: there,
            })
        } else {
            Err(AccessError::Escapes(path.clone()))
        }
    }

    fn new_target(&self, path: &RelPath) -> Result<Target, AccessError> {
        let Some(last) = path.file_name() else {
            return Err(AccessError::IsADirectory(path.clone()));
        };
        let mut missing: Vec<Vec<u8>> = Vec::new();
        let mut above = path.parent();
        while let Some(directory) = above {
            match self.open_resolved(&directory, OFlags::PATH | OFlags::DIRECTORY) {
                Ok((parent, resolved)) => {
                    missing.reverse();
                    return self.judge_new(path, parent, &resolved, missing, name::decode(last).into_owned());
                }
                Err(AccessError::NotFound(_)) => {
                    missing.extend(directory.file_name().map(|part| name::decode(part).into_owned()));
                    above = directory.parent();
                }
                Err(error) => return Err(rename_error(error, path)),
            }
        }
        Err(AccessError::NotFound(path.clone()))
    }

    /// Matches the deny globs against where the file would really be, and refuses a link to nowhere.
    fn judge_new(
        &self,
        path: &RelPath,
        parent: OwnedFd,
        resolved: &RelPath,
        missing: Vec<Vec<u8>>,
        name: Vec<u8>,
    ) -> Result<Target, AccessError> {
        let too_long = |_| AccessError::from_errno(Errno::NAMETOOLONG, path);
        let mut whole = resolved.clone();
        for part in missing.iter().chain([&name]) {
            whole = whole.child(part).map_err(too_long)?;
        }
        if self.deny.denies(&whole) {
            return Err(AccessError::Denied(path.clone()));
        }
        let first = missing.first().unwrap_or(&name);
        match statat(&parent, first.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(Target::New {
                parent,
                missing,
                name,
            }),
            Ok(_) => Err(AccessError::NotAFile(path.clone())),
            Err(error) => Err(AccessError::from_errno(error, path)),
        }
    }
}

/// Whether an error tells that there is something, or that there is not.
const fn tells_existence(error: &AccessError) -> bool {
    matches!(
        error,
        AccessError::IsADirectory(_)
            | AccessError::NotADirectory(_)
            | AccessError::NotAFile(_)
            | AccessError::NotFound(_)
    )
}

/// Names the whole path in an error about a directory above it.
fn rename_error(error: AccessError, path: &RelPath) -> AccessError {
    match error {
        AccessError::Denied(_) => AccessError::Denied(path.clone()),
        AccessError::Escapes(_) => AccessError::Escapes(path.clone()),
        AccessError::NotADirectory(_) => AccessError::NotADirectory(path.clone()),
        other => other,
    }
}

fn is_directory(parent: BorrowedFd<'_>, name: &[u8]) -> bool {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Makes the directories one below the other, each by the handle of the one before.
fn make_directories(mut parent: OwnedFd, parts: &[Vec<u8>]) -> Result<OwnedFd, Errno> {
    for part in parts {
        let part = part.as_slice();
        match mkdirat(&parent, part, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        parent = beneath::open(
            parent.as_fd(),
            part,
            OFlags::PATH | OFlags::DIRECTORY,
            Mode::empty(),
            Links::Refused,
        )?;
    }
    Ok(parent)
}

/// Makes a complete new file, or fails with `EXIST` if there is anything under the name.
fn create_file(parent: BorrowedFd<'_>, name: &[u8], content: &[u8]) -> Result<(), Errno> {
    let temporary = Temporary::write(parent, content, Mode::from_raw_mode(0o666))?;
    temporary.become_file(name, RenameFlags::NOREPLACE)
}

/// Puts a complete file under a name, in the place of a file that is there.
///
/// It takes over the permissions of the old file, but never a set-uid, set-gid or sticky bit.
fn replace_file(
    parent: BorrowedFd<'_>,
    name: &[u8],
    content: &[u8],
    old: Option<&Stat>,
) -> Result<(), Errno> {
    let temporary = Temporary::write(parent, content, Mode::from_raw_mode(0o666))?;
    if let Some(old) = old {
        temporary.take_over(old)?;
    }
    temporary.become_file(name, RenameFlags::empty())
}

/// A file beside its future place. It is removed unless it gets there.
pub(crate) struct Temporary<'a> {
    parent: BorrowedFd<'a>,
    name: String,
    file: OwnedFd,
    placed: bool,
}

impl<'a> Temporary<'a> {
    pub(crate) fn write(parent: BorrowedFd<'a>, content: &[u8], mode: Mode) -> Result<Self, Errno> {
        let mut temporary = Self::make(parent, mode)?;
        temporary.fill(content)?;
        Ok(temporary)
    }

    fn make(parent: BorrowedFd<'a>, mode: Mode) -> Result<Self, Errno> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        for _ in 0..TEMPORARY_TRIES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".write-{}-{number}.tmp", std::process::id());
            match beneath::open(parent, name.as_str(), flags, mode, Links::Refused) {
                Ok(file) => {
                    return Ok(Self {
                        parent,
                        name,
                        file,
                        placed: false,
                    });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST)
    }

    fn fill(&mut self, mut content: &[u8]) -> Result<(), Errno> {
        while !content.is_empty() {
            match write(&self.file, content) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => content = content.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take_over(&self, old: &Stat) -> Result<(), Errno> {
        let own = fstat(&self.file)?;
        if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid) {
            // Only a privileged process may give a file away. Another one keeps what it writes, as any editor does.
            let _ = fchown(
                &self.file,
                Some(rustix::fs::Uid::from_raw(old.st_uid)),
                Some(rustix::fs::Gid::from_raw(old.st_gid)),
            );
        }
        fchmod(&self.file, Mode::from_raw_mode(old.st_mode & 0o777))
    }

    pub(crate) fn become_file(mut self, name: &[u8], flags: RenameFlags) -> Result<(), Errno> {
        renameat_with(self.parent, self.name.as_str(), self.parent, name, flags)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.placed {
            // Nothing is left to do if even this fails; the next scan shows the file.
            let _ = unlinkat(self.parent, self.name.as_str(), AtFlags::empty());
        }
    }
}
