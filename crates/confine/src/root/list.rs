use super::{AccessError, Root, resolve};
use crate::{
    beneath::{self, Links},
    path::RelPath,
};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, FileType, Mode, OFlags, RawDir, fstat, statat},
    io::Errno,
};
use std::mem::MaybeUninit;

/// The most entries that one listing gives, and the most that it looks at.
pub const MAX_LISTED: usize = 100_000;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device, none of which can be opened here.
    Other,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its path beneath the root.
    pub path: RelPath,
    /// Its kind. A link is told as a link.
    pub kind: EntryKind,
}

/// A list that may have been cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing<T> {
    /// What was found, ordered by path.
    pub entries: Vec<T>,
    /// Whether there is more than was looked at.
    pub truncated: bool,
}

impl EntryKind {
    pub(crate) const fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Other,
        }
    }
}

impl Root {
    /// Lists the entries of one directory. Denied entries are left out.
    pub fn list(&self, path: &RelPath) -> Result<Listing<ListedEntry>, AccessError> {
        let (directory, resolved) = self.open_resolved(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut budget = MAX_LISTED;
        let mut listing = Listing {
            entries: Vec::new(),
            truncated: false,
        };
        let found = self.entries_of(&directory, path, &resolved, &mut budget, &mut listing.truncated)?;
        listing.entries = found.into_iter().map(|(entry, _)| entry).collect();
        listing.entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// Lists all regular files at and below a path, and the links to such files. A path at which nothing is has none.
    ///
    /// Links to directories are not descended into, so no cycle is walked. What cannot be read is left out, as are
    /// denied files and links that lead to denied files or out of the root.
    pub fn files(&self, path: &RelPath) -> Result<Listing<RelPath>, AccessError> {
        let mut listing = Listing {
            entries: Vec::new(),
            truncated: false,
        };
        let (opened, resolved) = match self.open_resolved(path, OFlags::PATH) {
            Ok(opened) => opened,
            Err(AccessError::NotFound(_)) => return Ok(listing),
            Err(error) => return Err(error),
        };
        let stat = fstat(&opened).map_err(|error| AccessError::from_errno(error, path))?;
        match EntryKind::of(FileType::from_raw_mode(stat.st_mode)) {
            EntryKind::File => {
                listing.entries.push(path.clone());
                return Ok(listing);
            }
            EntryKind::Directory => {}
            EntryKind::Link | EntryKind::Other => return Err(AccessError::NotAFile(path.clone())),
        }
        self.walk(path.clone(), resolved, &mut listing)?;
        listing.entries.sort();
        Ok(listing)
    }

    /// Walks directories from a list, not by recursion, so that a deep tree costs neither stack nor handles.
    fn walk(
        &self,
        shown: RelPath,
        resolved: RelPath,
        listing: &mut Listing<RelPath>,
    ) -> Result<(), AccessError> {
        let mut budget = MAX_LISTED;
        let top = shown.clone();
        let mut directories = vec![(shown, resolved)];
        while let Some((shown, resolved)) = directories.pop() {
            let found = self
                .open_plain(&resolved, OFlags::RDONLY | OFlags::DIRECTORY)
                .map_err(|e| AccessError::from_errno(e, &shown))
                .and_then(|directory| {
                    self.entries_of(&directory, &shown, &resolved, &mut budget, &mut listing.truncated)
                });
            let found = match found {
                Ok(found) => found,
                Err(error) if shown == top => return Err(error),
                Err(_) => continue,
            };
            for (entry, resolved) in found {
                match entry.kind {
                    EntryKind::File => listing.entries.push(entry.path),
                    EntryKind::Directory => directories.push((entry.path, resolved)),
                    EntryKind::Link if self.leads_to_file(&resolved) => listing.entries.push(entry.path),
                    EntryKind::Link | EntryKind::Other => {}
                }
            }
        }
        Ok(())
    }

    /// The entries of an open directory, each with its path as shown and with its path with links resolved.
    fn entries_of(
        &self,
        directory: &OwnedFd,
        shown: &RelPath,
        resolved: &RelPath,
        budget: &mut usize,
        truncated: &mut bool,
    ) -> Result<Vec<(ListedEntry, RelPath)>, AccessError> {
        let mut found = Vec::new();
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 16 * 1024];
        let mut entries = RawDir::new(directory.as_fd(), &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(AccessError::from_errno(error, shown)),
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if *budget == 0 {
                *truncated = true;
                break;
            }
            *budget -= 1;
            let (Ok(path), Ok(resolved)) = (shown.child(name.to_bytes()), resolved.child(name.to_bytes()))
            else {
                // Deeper than a path may be: nobody could name it.
                *truncated = true;
                continue;
            };
            if self.deny.denies(&path) || self.deny.denies(&resolved) {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                known => known,
            };
            found.push((
                ListedEntry {
                    path,
                    kind: EntryKind::of(kind),
                },
                resolved,
            ));
        }
        Ok(found)
    }

    fn leads_to_file(&self, link: &RelPath) -> bool {
        let Ok(opened) = beneath::open(
            self.handle(),
            &*link.bytes(),
            OFlags::PATH,
            Mode::empty(),
            Links::Inside,
        ) else {
            return false;
        };
        let is_file =
            fstat(&opened).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        is_file
            && resolve::path_of(self.handle(), opened.as_fd(), link)
                .is_ok_and(|resolved| !self.deny.denies(&resolved))
    }
}
