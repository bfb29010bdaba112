//! Making a directory exactly what a manifest says.
//!
//! Only what differs is touched. Every step works on a handle that was opened without following any link, so a link that
//! is to be replaced, or one that somebody puts in the way, never leads a write or a removal elsewhere.

mod plan;
mod remove;

use crate::{
    name,
    path::{PathError, RelPath},
    root::{Root, Temporary},
    scan::{ScanError, Scanner},
};
use plan::Plan;
use portolan_core::{
    digest::Digest,
    manifest::{Entry, Manifest},
};
use rustix::{
    fd::{AsFd, BorrowedFd},
    fs::{Mode, OFlags, RenameFlags, chmod, fstat, mkdirat, symlinkat},
    io::Errno,
};
use std::error::Error;

/// Gives the content of a digest.
pub type Fetch<'a> = &'a mut dyn FnMut(&Digest) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>>;

/// How often a directory that had to be made readable is looked at again. Each time the next level shows.
const OPENING_ROUNDS: usize = 64;

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// How many entries were written or changed.
    pub written: usize,
    /// How many entries were removed.
    pub removed: usize,
    /// What the manifest lists as unreadable. It is unknown what should be there, so whatever is there was left alone.
    pub skipped: Vec<String>,
}

/// Why a directory is not what the manifest says. Some of it may have been written.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A path of the manifest is none beneath a root. Nothing was touched.
    #[error("the manifest has an invalid path")]
    Path(#[source] PathError),
    /// The manifest has something below what is no directory. Nothing was touched.
    #[error("the manifest has an entry below `{path}`, which is no directory")]
    Inconsistent {
        /// What should be a directory.
        path: RelPath,
    },
    /// The content of a file could not be fetched.
    #[error("the content of `{path}` could not be fetched")]
    Fetch {
        /// The file.
        path: RelPath,
        /// What the fetch said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// What was fetched has another digest than was asked for.
    #[error("the fetched content of `{path}` has another digest")]
    WrongContent {
        /// The file.
        path: RelPath,
    },
    /// The host refused a change.
    #[error("`{path}` could not be restored")]
    Io {
        /// What was to be changed.
        path: RelPath,
        /// What the host said.
        #[source]
        source: Errno,
    },
    /// The directory could not be scanned.
    #[error("the directory could not be scanned")]
    Scan(#[source] ScanError),
    /// The directory still differs, so something else is writing into it.
    #[error("the directory differs from the manifest at `{path}` after the restore")]
    Differs {
        /// The first difference.
        path: String,
    },
}

/// Makes the content of the root equal to the manifest and verifies it with a scan.
///
/// The scanner may be one that knows the directory, and knows it afterwards.
pub fn restore(
    root: &Root,
    manifest: &Manifest,
    scanner: &mut Scanner,
    fetch: Fetch<'_>,
) -> Result<RestoreReport, RestoreError> {
    let plan = Plan::new(manifest)?;
    let mut current = open_up(root, scanner)?;
    let mut report = RestoreReport {
        skipped: plan.skipped(),
        ..RestoreReport::default()
    };
    for path in plan.to_remove(&current) {
        remove::entry(root, &relative(&path)?)?;
        current.entries.remove(&path);
        report.removed += 1;
    }
    for (path, entry) in plan.to_put(&current) {
        put(root, &relative(path)?, entry, current.entries.get(path), fetch)?;
        report.written += 1;
    }
    let now = scanner.scan(root).map_err(RestoreError::Scan)?;
    match plan.difference(&now) {
        Some(path) => Err(RestoreError::Differs { path }),
        None => Ok(report),
    }
}

fn relative(path: &str) -> Result<RelPath, RestoreError> {
    RelPath::parse(path).map_err(RestoreError::Path)
}

/// Scans, and gives the owner access to directories that hide their content, level by level.
fn open_up(root: &Root, scanner: &mut Scanner) -> Result<Manifest, RestoreError> {
    let mut current = scanner.scan(root).map_err(RestoreError::Scan)?;
    for _ in 0..OPENING_ROUNDS {
        let closed = current
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::Unreadable { .. }));
        let mut opened = false;
        for (path, _) in closed {
            opened |= relative(path).is_ok_and(|path| remove::open_directory(root, &path));
        }
        if !opened {
            break;
        }
        current = scanner.scan(root).map_err(RestoreError::Scan)?;
    }
    Ok(current)
}

/// Puts one entry where there is nothing, or a file or link that differs.
fn put(
    root: &Root,
    path: &RelPath,
    entry: &Entry,
    current: Option<&Entry>,
    fetch: Fetch<'_>,
) -> Result<(), RestoreError> {
    let failed = |source| RestoreError::Io {
        path: path.clone(),
        source,
    };
    match (entry, current) {
        (
            Entry::File {
                digest, executable, ..
            },
            Some(Entry::File { digest: present, .. }),
        ) if digest == present => set_executable(root, path, *executable).map_err(failed),
        (
            Entry::File {
                digest, executable, ..
            },
            _,
        ) => {
            let content = fetch(digest).map_err(|source| RestoreError::Fetch {
                path: path.clone(),
                source,
            })?;
            if Digest::of(&content) != *digest {
                return Err(RestoreError::WrongContent { path: path.clone() });
            }
            let mode = Mode::from_raw_mode(if *executable { 0o777 } else { 0o666 });
            in_parent(root, path, |parent, name| {
                Temporary::write(parent, &content, mode)?.become_file(name, RenameFlags::empty())
            })
            .map_err(failed)
        }
        (Entry::Link { target }, current) => {
            if current.is_some() {
                remove::entry(root, path)?;
            }
            let target = name::decode(target);
            in_parent(root, path, |parent, name| symlinkat(&*target, parent, name)).map_err(failed)
        }
        (Entry::Directory, _) => in_parent(root, path, |parent, name| {
            mkdirat(parent, name, Mode::from_raw_mode(0o777))
        })
        .map_err(failed),
        (Entry::Unreadable { .. }, _) => Ok(()),
    }
}

/// Acts on a name in its directory. A directory that its owner may not write is opened up, as the owner could do it.
fn in_parent<T>(
    root: &Root,
    path: &RelPath,
    mut act: impl FnMut(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let (Some(above), Some(last)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL);
    };
    let name = name::decode(last);
    let parent = root.open_plain(&above, OFlags::PATH | OFlags::DIRECTORY)?;
    match act(parent.as_fd(), &name) {
        Err(Errno::ACCESS) if remove::open_directory(root, &above) => act(parent.as_fd(), &name),
        other => other,
    }
}

/// Lets everybody who may read a file execute it, or nobody.
fn set_executable(root: &Root, path: &RelPath, executable: bool) -> Result<(), Errno> {
    // The owner may have no right to open the file, but can always change the rights; a handle by path alone needs none.
    let file = root.open_plain(path, OFlags::PATH)?;
    let mode = fstat(&file)?.st_mode & 0o777;
    let mode = if executable {
        mode | 0o100 | ((mode & 0o444) >> 2)
    } else {
        mode & !0o111
    };
    chmod(remove::path_of_handle(&file), Mode::from_raw_mode(mode))
}
