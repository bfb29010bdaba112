//! Digests of files, as long as the file system vouches that they did not change.

use portolan_core::digest::Digest;
use rustix::{
    fs::Stat,
    time::{ClockId, clock_gettime},
};
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::atomic::{AtomicU32, Ordering},
};

/// How far apart two changes must be to get different times: two ticks of the slowest clock that kernels are built with,
/// and some reserve.
const FINE_STEP_NS: i64 = 50_000_000;
/// The same for a file system that counts in whole seconds or, as some do, in pairs of them.
const COARSE_STEP_NS: i64 = 2_000_000_000;

/// What the file system says of a file. A change of content changes at least one of these.
///
/// A program can set the size and the modification time to what they were. It cannot set the change time, which is the
/// kernel's own. What remains is a change so soon after another that both get the same change time; see [`Line::settled`].
/// (A page that a living process has mapped for writing can change without a time. No process of a command is alive
/// when a scan runs.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) file: FileId,
    pub(super) size: u64,
    pub(super) mode: u32,
    modified: i64,
    changed: i64,
}

/// Which file it is, whatever its names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// The time of the clock that stamps files, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Now(i64);

/// What is known of a file.
#[derive(Debug)]
pub(super) struct Line {
    stamp: Stamp,
    digest: Digest,
    /// Whether the file had been left alone for long enough before it was hashed that any later change must get a later
    /// change time. If not, the same stamp proves nothing, and the file is hashed again.
    settled: bool,
    seen: AtomicU32,
}

impl Line {
    /// The digest of a file that is exactly as it was when it was hashed.
    pub(super) fn digest(&self, stamp: &Stamp) -> Option<Digest> {
        (self.settled && self.stamp == *stamp).then_some(self.digest)
    }
}

#[derive(Debug, Default)]
pub(super) struct Cache {
    lines: HashMap<FileId, Line, BuildHasherDefault<InodeHasher>>,
    scan: u32,
    began: Now,
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            file: FileId {
                device: stat.st_dev,
                inode: stat.st_ino,
            },
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            mode: stat.st_mode,
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// The change time, for the reason of an entry without a digest: touching it is then a change.
    pub(super) const fn changed(&self) -> i64 {
        self.changed
    }

    const fn settled(&self, now: Now) -> bool {
        let step = if self.changed % 1_000_000_000 == 0 {
            COARSE_STEP_NS
        } else {
            FINE_STEP_NS
        };
        self.changed < now.0.saturating_sub(step)
    }
}

impl Now {
    /// Reads the clock from which local file systems take their times.
    pub(super) fn read() -> Self {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Self(nanoseconds(
            now.tv_sec,
            u64::try_from(now.tv_nsec).unwrap_or_default(),
        ))
    }
}

impl Cache {
    /// Begins a scan. Its time is taken before anything is looked at, so that it is too early for every file.
    pub(super) fn begin(&mut self, now: Now) {
        self.scan = self.scan.wrapping_add(1);
        self.began = now;
    }

    /// What is known of a file, if anything is, so that it is worth asking for its stamp.
    pub(super) fn line(&self, file: FileId) -> Option<&Line> {
        let line = self.lines.get(&file)?;
        line.seen.store(self.scan, Ordering::Relaxed);
        Some(line)
    }

    /// Takes in what was hashed.
    pub(super) fn learn(&mut self, learned: Vec<(Stamp, Digest)>) {
        self.lines.reserve(learned.len());
        for (stamp, digest) in learned {
            let settled = stamp.settled(self.began);
            let line = Line {
                stamp,
                digest,
                settled,
                seen: AtomicU32::new(self.scan),
            };
            self.lines.insert(stamp.file, line);
        }
    }

    /// Ends a scan, and forgets files that it did not see.
    pub(super) fn end(&mut self) {
        let scan = self.scan;
        self.lines.retain(|_, line| *line.seen.get_mut() == scan);
    }
}

/// Mixes inode numbers. They come from the kernel, not from whoever makes files, so nothing has to withstand an attack.
#[derive(Debug, Default)]
pub(super) struct InodeHasher(u64);

impl Hasher for InodeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(29) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A time since the epoch. A program may set any modification time; one that does not fit wraps, and is still compared.
fn nanoseconds(seconds: i64, nanoseconds: u64) -> i64 {
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add_unsigned(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::{Cache, FileId, Now, Stamp};
    use portolan_core::digest::Digest;

    const BASE: i64 = 1_700_000_000_000_000_001;

    fn stamp() -> Stamp {
        Stamp {
            file: FileId { device: 1, inode: 2 },
            size: 3,
            mode: 0o100_644,
            modified: BASE,
            changed: BASE,
        }
    }

    fn digest(cache: &Cache, stamp: &Stamp) -> Option<Digest> {
        cache.line(stamp.file)?.digest(stamp)
    }

    fn cache(began: i64) -> Cache {
        let mut cache = Cache::default();
        cache.begin(Now(began));
        cache.learn(vec![(stamp(), Digest::of(b"abc"))]);
        cache.end();
        cache
    }

    #[test]
    fn the_same_stamp_is_the_same_file() {
        let cache = cache(BASE + 1_000_000_000);
        assert_eq!(digest(&cache, &stamp()), Some(Digest::of(b"abc")));
        for other in [
            Stamp { size: 4, ..stamp() },
            Stamp {
                mode: 0o100_755,
                ..stamp()
            },
            Stamp {
                modified: 0,
                ..stamp()
            },
            Stamp {
                changed: stamp().changed + 1,
                ..stamp()
            },
            Stamp {
                file: FileId { device: 2, inode: 2 },
                ..stamp()
            },
        ] {
            assert_eq!(digest(&cache, &other), None, "{other:?}");
        }
    }

    #[test]
    fn a_file_that_just_changed_is_hashed_again() {
        assert_eq!(digest(&cache(BASE + 10_000_000), &stamp()), None);
        assert_eq!(digest(&cache(BASE - 1_000_000_000), &stamp()), None);
    }

    #[test]
    fn whole_seconds_need_more_distance() {
        let coarse = Stamp {
            changed: BASE - 1,
            ..stamp()
        };
        assert!(!coarse.settled(Now(BASE + 1_000_000_000)));
        assert!(coarse.settled(Now(BASE + 3_000_000_000)));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut cache = cache(BASE + 1_000_000_000);
        cache.begin(Now(BASE + 2_000_000_000));
        let _ = digest(&cache, &stamp());
        cache.end();
        assert!(cache.line(stamp().file).is_some());
        cache.begin(Now(BASE + 3_000_000_000));
        cache.end();
        assert!(cache.line(stamp().file).is_none());
    }
}
