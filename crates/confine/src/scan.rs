//! Change manifests: what a directory holds, as a value that can be compared.
//!
//! A scan never follows a link and never leaves the root. What it cannot read becomes an entry that says so, because a
//! hole in the evidence must be visible and must not cost the rest of it. A second scan reads only what changed: a
//! [`Scanner`] remembers the digest of each file together with what the file system says of it.

mod cache;
mod queue;
mod walk;

use crate::root::Root;
use cache::{Cache, Now};
use portolan_core::manifest::Manifest;
use queue::Queue;
use rustix::{fs::fstat, io::Errno};
use walk::{Job, Output, Walk};

/// How far one scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanLimits {
    /// The most entries below a root. A scan that finds more fails.
    pub entries: usize,
    /// The largest file that is hashed, in bytes. A larger one becomes an entry without a digest.
    pub file_bytes: u64,
    /// How many bytes one scan hashes. Files beyond that become entries without a digest.
    pub total_bytes: u64,
}

impl Default for ScanLimits {
    fn default() -> Self {
        Self {
            entries: 500_000,
            file_bytes: 1 << 30,
            total_bytes: 16 << 30,
        }
    }
}

/// Why there is no manifest at all.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// There is more below the root than a scan takes.
    #[error("there are more than {limit} entries")]
    TooManyEntries {
        /// The most that is allowed.
        limit: usize,
    },
    /// The root itself cannot be read.
    #[error("the root cannot be read")]
    Root(#[source] Errno),
}

/// Scans a directory again and again and hashes only what changed in between.
#[derive(Debug, Default)]
pub struct Scanner {
    limits: ScanLimits,
    cache: Cache,
}

impl Scanner {
    /// A scanner that remembers nothing yet.
    pub fn new(limits: ScanLimits) -> Self {
        Self {
            limits,
            cache: Cache::default(),
        }
    }

    /// Tells what is below the root now.
    ///
    /// Whatever runs in the directory should have ended; what changes during the scan is seen before or after its
    /// change, and the next scan looks at it again.
    pub fn scan(&mut self, root: &Root) -> Result<Manifest, ScanError> {
        let device = fstat(root.handle()).map_err(ScanError::Root)?.st_dev;
        self.cache.begin(Now::read());
        let queue = Queue::new(Job::root());
        let walk = Walk::new(root, device, self.limits, &self.cache, &queue);
        let outputs = run(&walk, &queue);
        walk.finish()?;
        let mut entries = Vec::with_capacity(outputs.iter().map(|output| output.entries.len()).sum());
        for output in outputs {
            self.cache.learn(output.learned);
            entries.extend(output.entries);
        }
        self.cache.end();
        // Each part is in order already, so that building the map only merges them.
        Ok(Manifest {
            entries: entries.into_iter().collect(),
        })
    }
}

/// Works on the calling thread, and on a second one as soon as there is something to share.
fn run(walk: &Walk<'_>, queue: &Queue<Job>) -> Vec<Output> {
    let mut first = Output::default();
    walk.work_once(&mut first);
    if queue.len() < 2 {
        walk.work(&mut first);
        return vec![first.sorted()];
    }
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let mut second = Output::default();
            walk.work(&mut second);
            second.sorted()
        });
        walk.work(&mut first);
        let first = first.sorted();
        match helper.join() {
            Ok(second) => vec![first, second],
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
