use super::{AccessError, EntryKind, Root};
use crate::path::RelPath;
use rustix::{
    fd::OwnedFd,
    fs::{FileType, OFlags, fstat},
    io::{Errno, read},
};

/// The most bytes that one read gives.
pub const MAX_READ_BYTES: u64 = 16 * 1024 * 1024;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its kind; a link that leads inside counts as what it leads to.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size: u64,
    /// Whether its owner may execute it.
    pub executable: bool,
}

impl Root {
    /// Reads a regular file of at most [`MAX_READ_BYTES`].
    pub fn read(&self, path: &RelPath) -> Result<Vec<u8>, AccessError> {
        self.read_at_most(path, MAX_READ_BYTES)
    }

    /// Reads a text file exactly as it is: no line ending and no byte order mark is changed.
    pub fn read_text(&self, path: &RelPath) -> Result<String, AccessError> {
        String::from_utf8(self.read(path)?).map_err(|_| AccessError::NotUtf8(path.clone()))
    }

    /// Reads a regular file of at most so many bytes.
    pub fn read_at_most(&self, path: &RelPath, limit: u64) -> Result<Vec<u8>, AccessError> {
        let (file, _) = self.open_resolved(path, OFlags::RDONLY)?;
        let failed = |error| AccessError::from_errno(error, path);
        let stat = fstat(&file).map_err(failed)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(AccessError::IsADirectory(path.clone())),
            _ => return Err(AccessError::NotAFile(path.clone())),
        }
        let too_large = || AccessError::TooLarge {
            path: path.clone(),
            limit,
        };
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if size > limit {
            return Err(too_large());
        }
        // The size is only a hint: the file may grow or shrink while it is read.
        let content = read_up_to(&file, size, limit).map_err(failed)?;
        if content.len() as u64 > limit {
            Err(too_large())
        } else {
            Ok(content)
        }
    }

    /// Tells what is at a path.
    pub fn stat(&self, path: &RelPath) -> Result<Stat, AccessError> {
        let (opened, _) = self.open_resolved(path, OFlags::PATH)?;
        let stat = fstat(&opened).map_err(|error| AccessError::from_errno(error, path))?;
        Ok(Stat {
            kind: EntryKind::of(FileType::from_raw_mode(stat.st_mode)),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            executable: stat.st_mode & 0o100 != 0,
        })
    }
}

/// Reads to the end, or until one byte more than the limit is there.
fn read_up_to(file: &OwnedFd, hint: u64, limit: u64) -> Result<Vec<u8>, Errno> {
    let room = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let most = room(limit.saturating_add(1));
    let mut content = vec![0; room(hint.saturating_add(1)).min(most)];
    let mut filled = 0;
    loop {
        if filled == content.len() {
            if filled >= most {
                break;
            }
            content.resize((filled * 2).max(4_096).min(most), 0);
        }
        match read(file, &mut content[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    content.truncate(filled);
    Ok(content)
}
