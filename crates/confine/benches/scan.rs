//! The first and the second look of a scanner at 10,000 files of 4 KiB, side by side with a plain walk that reads and
//! hashes each file with SHA-256 on one thread.

#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark of files makes them and measures time"
)]
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use portolan_confine::{Root, ScanLimits, Scanner};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

const DIRECTORIES: usize = 100;
const FILES: usize = 100;
const SIZE: usize = 4 * 1024;
const ROUNDS: usize = 15;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    fill(directory.path())?;
    // A file that has just changed is hashed again by the next scan; a benchmark wants the usual case.
    std::thread::sleep(Duration::from_millis(200));
    let root = Root::open(directory.path())?;
    let (mut plain, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(timed(|| plain_walk(directory.path()))?);
        let mut scanner = Scanner::new(ScanLimits::default());
        first.push(timed(|| {
            scanner.scan(&root).map(|manifest| manifest.entries.len())
        })?);
        second.push(timed(|| {
            scanner.scan(&root).map(|manifest| manifest.entries.len())
        })?);
    }
    let (plain, first, second) = (median(plain), median(first), median(second));
    println!(
        "{} files of {SIZE} bytes, warm, median of {ROUNDS}",
        DIRECTORIES * FILES
    );
    println!("plain SHA-256 walk  {:>8.2} ms", milliseconds(plain));
    println!(
        "first look          {:>8.2} ms  {:.3}x",
        milliseconds(first),
        ratio(first, plain)
    );
    println!(
        "second look         {:>8.2} ms  {:.3}x",
        milliseconds(second),
        ratio(second, plain)
    );
    Ok(())
}

fn fill(root: &Path) -> io::Result<()> {
    let mut content = vec![0_u8; SIZE];
    for directory in 0..DIRECTORIES {
        let path = root.join(format!("directory-{directory:03}"));
        fs::create_dir(&path)?;
        for file in 0..FILES {
            let number = (directory * FILES + file) as u64;
            content[..8].copy_from_slice(&number.to_le_bytes());
            fs::write(path.join(format!("file-{file:03}.txt")), &content)?;
        }
    }
    Ok(())
}

fn plain_walk(root: &Path) -> io::Result<usize> {
    fn walk(directory: &Path, root: &Path, found: &mut BTreeMap<String, [u8; 32]>) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                walk(&path, root, found)?;
            } else {
                let digest = Sha256::digest(fs::read(&path)?).into();
                let name = path
                    .strip_prefix(root)
                    .unwrap_or(&path)
                    .to_string_lossy()
                    .into_owned();
                found.insert(name, digest);
            }
        }
        Ok(())
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found)?;
    Ok(found.len())
}

fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<Duration, E> {
    let start = Instant::now();
    std::hint::black_box(work()?);
    Ok(start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn ratio(time: Duration, plain: Duration) -> f64 {
    time.as_secs_f64() / plain.as_secs_f64()
}
