//! One walk over a tree: jobs, and the workers that share them.

use super::{
    ScanError, ScanLimits,
    cache::{Cache, FileId, Stamp},
    queue::Queue,
};
use crate::{
    beneath::{self, Links},
    name,
    path::{MAX_PART_BYTES, MAX_PARTS, MAX_PATH_BYTES},
    root::Root,
};
use portolan_core::{digest::Digest, manifest::Entry};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, FileType, Mode, OFlags, RawDir, fstat, readlinkat, statat},
    io::{Errno, read},
};
use std::{
    ffi::CStr,
    mem::MaybeUninit,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// How many files one job holds: enough to make handing it over cheap, few enough to share a single large directory.
const BATCH: usize = 128;
const READ_BUFFER: usize = 128 * 1024;
const NAMES_BUFFER: usize = 32 * 1024;

/// Something to look at.
#[derive(Debug)]
pub(super) enum Job {
    /// A directory to open and read. The path is empty for the root.
    Directory { path: String, depth: usize },
    /// Entries of an open directory, none of which is a directory.
    Entries(Batch),
}

#[derive(Debug)]
pub(super) struct Batch {
    directory: Arc<OwnedFd>,
    path: Arc<str>,
    /// The names one after the other, each with its NUL.
    names: Vec<u8>,
    kinds: Vec<(FileType, u64)>,
}

/// What one worker found.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) entries: Vec<(String, Entry)>,
    pub(super) learned: Vec<(Stamp, Digest)>,
    buffer: Vec<u8>,
}

/// What all workers share.
pub(super) struct Walk<'a> {
    root: &'a Root,
    device: u64,
    limits: ScanLimits,
    cache: &'a Cache,
    queue: &'a Queue<Job>,
    entries: AtomicUsize,
    hashed_bytes: AtomicU64,
    failure: Mutex<Option<ScanError>>,
}

impl Job {
    pub(super) const fn root() -> Self {
        Self::Directory {
            path: String::new(),
            depth: 0,
        }
    }
}

impl Default for Output {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            learned: Vec::new(),
            buffer: vec![0; READ_BUFFER],
        }
    }
}

impl Output {
    pub(super) fn sorted(mut self) -> Self {
        self.entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        self
    }

    fn push(&mut self, path: String, entry: Entry) {
        self.entries.push((path, entry));
    }
}

impl<'a> Walk<'a> {
    pub(super) const fn new(
        root: &'a Root,
        device: u64,
        limits: ScanLimits,
        cache: &'a Cache,
        queue: &'a Queue<Job>,
    ) -> Self {
        Self {
            root,
            device,
            limits,
            cache,
            queue,
            entries: AtomicUsize::new(0),
            hashed_bytes: AtomicU64::new(0),
            failure: Mutex::new(None),
        }
    }

    /// Works until nothing is left.
    pub(super) fn work(&self, output: &mut Output) {
        while self.work_once(output) {}
    }

    /// Does one job, and tells whether there was one.
    pub(super) fn work_once(&self, output: &mut Output) -> bool {
        let Some((job, _in_work)) = self.queue.take() else {
            return false;
        };
        self.work_on(job, output);
        true
    }

    fn work_on(&self, job: Job, output: &mut Output) {
        match job {
            Job::Directory { path, depth } => self.directory(path, depth, output),
            Job::Entries(batch) => self.batch(&batch, output),
        }
    }

    pub(super) fn finish(self) -> Result<(), ScanError> {
        self.failure
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .map_or(Ok(()), Err)
    }

    fn fail(&self, error: ScanError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.queue.clear();
    }

    fn directory(&self, path: String, depth: usize, output: &mut Output) {
        let is_root = path.is_empty();
        let found = self.read_directory(&path, depth, output);
        let entry = match found {
            Ok(()) => Entry::Directory,
            Err(error) if is_root => return self.fail(ScanError::Root(error)),
            Err(Errno::NOENT) => return,
            Err(error) => unreadable(reason_of(error), None),
        };
        if !is_root {
            output.push(path, entry);
        }
    }

    /// Reads a directory. Its files come last into the queue, so that they are done first and its handle can close.
    fn read_directory(&self, path: &str, depth: usize, output: &mut Output) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let bytes = name::decode(if path.is_empty() { "." } else { path });
        let opened = beneath::open(self.root.handle(), &*bytes, flags, Mode::empty(), Links::Refused)?;
        let mut batch = Batch::new(Arc::new(opened), path.into());
        let directory = Arc::clone(&batch.directory);
        let mut directories = Vec::new();
        let mut batches = Vec::new();
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; NAMES_BUFFER];
        let mut entries = RawDir::new(directory.as_fd(), &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if self.entries.fetch_add(1, Ordering::Relaxed) >= self.limits.entries {
                self.fail(ScanError::TooManyEntries {
                    limit: self.limits.entries,
                });
                return Ok(());
            }
            let kind = known_kind(entry.file_type(), directory.as_fd(), name);
            if depth >= MAX_PARTS || too_long(path, name) {
                // Nobody could name it, so that the directory counts as what cannot be read.
                return Err(Errno::NAMETOOLONG);
            }
            match kind {
                FileType::Directory => {
                    directories.push(Job::Directory {
                        path: join(path, name),
                        depth: depth + 1,
                    });
                }
                kind => batch.push(name, kind, entry.ino()),
            }
            if batch.kinds.len() >= BATCH {
                let next = Batch::new(Arc::clone(&directory), Arc::clone(&batch.path));
                batches.push(Job::Entries(std::mem::replace(&mut batch, next)));
            }
        }
        if !directories.is_empty() || !batches.is_empty() {
            self.queue.add(directories.into_iter().chain(batches));
        }
        self.batch(&batch, output);
        Ok(())
    }

    fn batch(&self, batch: &Batch, output: &mut Output) {
        let directory = batch.directory.as_fd();
        output.entries.reserve(batch.kinds.len());
        let names = batch.names.split_inclusive(|byte| *byte == 0);
        for (name, (kind, inode)) in names.zip(&batch.kinds) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else {
                continue;
            };
            let entry = match kind {
                FileType::RegularFile => self.file(directory, name, *inode, output),
                FileType::Symlink => link(directory, name),
                other => Some(unreadable(reason_of_kind(*other), None)),
            };
            if let Some(entry) = entry {
                output.push(join(&batch.path, name), entry);
            }
        }
    }

    /// The entry of a regular file; none if it is gone.
    fn file(&self, directory: BorrowedFd<'_>, name: &CStr, inode: u64, output: &mut Output) -> Option<Entry> {
        // The directory told the inode, so that a file nobody knows is opened without asking for its stamp first.
        if let Some(line) = self.cache.line(FileId {
            device: self.device,
            inode,
        }) {
            let stamp = Stamp::of(&statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?);
            if let Some(digest) = line.digest(&stamp) {
                return Some(file_entry(digest, stamp.size, stamp.mode));
            }
        }
        let file = match beneath::open(directory, name, OFlags::RDONLY, Mode::empty(), Links::Refused) {
            Ok(file) => file,
            Err(Errno::NOENT) => return None,
            Err(error) => {
                let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
                return Some(unreadable(
                    reason_of(error),
                    stat.ok().map(|stat| Stamp::of(&stat)).as_ref(),
                ));
            }
        };
        let Ok(stat) = fstat(&file) else {
            return Some(unreadable(CANNOT_READ, None));
        };
        let stamp = Stamp::of(&stat);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Some(unreadable(
                reason_of_kind(FileType::from_raw_mode(stat.st_mode)),
                None,
            ));
        }
        let spent = self.hashed_bytes.fetch_add(stamp.size, Ordering::Relaxed);
        if stamp.size > self.limits.file_bytes || spent.saturating_add(stamp.size) > self.limits.total_bytes {
            // What is not hashed is not spent.
            self.hashed_bytes.fetch_sub(stamp.size, Ordering::Relaxed);
            return Some(unreadable("it is too large", Some(&stamp)));
        }
        match hash(&file, stamp.size, &mut output.buffer) {
            Ok(Hashed { digest, size }) => {
                if size == stamp.size {
                    output.learned.push((stamp, digest));
                }
                Some(file_entry(digest, size, stamp.mode))
            }
            Err(error) => Some(unreadable(reason_of(error), Some(&stamp))),
        }
    }
}

impl Batch {
    fn new(directory: Arc<OwnedFd>, path: Arc<str>) -> Self {
        Self {
            directory,
            path,
            names: Vec::new(),
            kinds: Vec::new(),
        }
    }

    fn push(&mut self, name: &CStr, kind: FileType, inode: u64) {
        if self.kinds.is_empty() {
            self.names.reserve(BATCH * 24);
            self.kinds.reserve(BATCH);
        }
        self.names.extend_from_slice(name.to_bytes_with_nul());
        self.kinds.push((kind, inode));
    }
}

struct Hashed {
    digest: Digest,
    size: u64,
}

/// Hashes a file through one buffer. A file that grows meanwhile is hashed up to the size it had.
fn hash(file: &OwnedFd, size: u64, buffer: &mut [u8]) -> Result<Hashed, Errno> {
    let mut hasher: Option<blake3::Hasher> = None;
    let mut total = 0_u64;
    let mut filled = 0;
    loop {
        let left = size - total - filled as u64;
        let wanted = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len() - filled);
        if wanted == 0 {
            if left == 0 {
                break;
            }
            hasher.get_or_insert_default().update(&buffer[..filled]);
            total += filled as u64;
            filled = 0;
            continue;
        }
        match read(file, &mut buffer[filled..filled + wanted]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    total += filled as u64;
    let digest = match hasher {
        // Most files fit into the buffer, and hashing them at once is much faster.
        None => blake3::hash(&buffer[..filled]),
        Some(mut hasher) => hasher.update(&buffer[..filled]).finalize(),
    };
    Ok(Hashed {
        digest: Digest(*digest.as_bytes()),
        size: total,
    })
}

fn link(directory: BorrowedFd<'_>, name: &CStr) -> Option<Entry> {
    match readlinkat(directory, name, Vec::new()) {
        Ok(target) => Some(Entry::Link {
            target: name::encode(target.as_bytes()),
        }),
        Err(Errno::NOENT) => None,
        Err(error) => Some(unreadable(reason_of(error), None)),
    }
}

const fn file_entry(digest: Digest, size: u64, mode: u32) -> Entry {
    Entry::File {
        digest,
        size,
        executable: mode & 0o100 != 0,
    }
}

const CANNOT_READ: &str = "it cannot be read";

/// An entry without content. Where there is a stamp, it makes two versions of the thing differ.
fn unreadable(reason: &str, stamp: Option<&Stamp>) -> Entry {
    let reason = match stamp {
        Some(stamp) => format!("{reason} ({} bytes, changed {})", stamp.size, stamp.changed()),
        None => reason.to_owned(),
    };
    Entry::Unreadable { reason }
}

const fn reason_of(error: Errno) -> &'static str {
    match error {
        Errno::ACCESS | Errno::PERM => "permission denied",
        Errno::XDEV => "it is in another file system",
        Errno::NAMETOOLONG => "its paths are too long",
        Errno::LOOP | Errno::NOTDIR | Errno::NOENT | Errno::STALE | Errno::AGAIN => {
            "it was replaced while it was read"
        }
        Errno::MFILE | Errno::NFILE => "too many files are open",
        Errno::NXIO | Errno::NODEV => "it is no regular file",
        _ => CANNOT_READ,
    }
}

const fn reason_of_kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "it is a pipe",
        FileType::Socket => "it is a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "it is a device",
        FileType::RegularFile | FileType::Directory | FileType::Symlink => {
            "it was replaced while it was read"
        }
        FileType::Unknown => CANNOT_READ,
    }
}

fn known_kind(kind: FileType, directory: BorrowedFd<'_>, name: &CStr) -> FileType {
    if kind != FileType::Unknown {
        return kind;
    }
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

fn too_long(path: &str, name: &CStr) -> bool {
    // An escaped byte takes four characters; most names need none and are not measured twice.
    let length = name.to_bytes().len();
    length > MAX_PART_BYTES
        || (path.len() + 1 + 4 * length > MAX_PATH_BYTES
            && path.len() + 1 + name::encode(name.to_bytes()).len() > MAX_PATH_BYTES)
}

fn join(path: &str, name: &CStr) -> String {
    let name = name.to_bytes();
    let mut joined = String::with_capacity(path.len() + 1 + name.len());
    if !path.is_empty() {
        joined.push_str(path);
        joined.push('/');
    }
    name::encode_into(name, &mut joined);
    joined
}
