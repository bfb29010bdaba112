//! What the disk can do: durable commits of one row, one after the other.

use crate::Failure;
use rusqlite::Connection;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Commits of one probe.
const COMMITS: usize = 2_000;

/// The median time of one commit of 1 KB under WAL and full synchronisation.
pub(crate) fn commit_time(path: &Path) -> Result<Duration, Failure> {
    let database = Connection::open(path)?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "FULL")?;
    database.execute_batch("CREATE TABLE probe (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")?;
    let mut insert = database.prepare("INSERT INTO probe (payload) VALUES (?1)")?;
    let payload = vec![7_u8; 1_024];
    let mut times = Vec::with_capacity(COMMITS);
    for _ in 0..COMMITS {
        let began = Instant::now();
        insert.execute([&payload])?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[COMMITS / 2])
}
