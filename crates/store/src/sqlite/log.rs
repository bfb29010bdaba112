//! The file of the write-ahead log, made long before it is needed.
//!
//! A commit that makes the file longer has to make its new length durable too, and that costs as much again as the pages
//! themselves. SQLite writes the log over and over from its beginning once it was folded, and never shortens it while it
//! is open; so a file that is long from the start spares every commit its growth. What lies behind the last valid frame is
//! ignored by SQLite, zeros among it.

use std::{
    fs::OpenOptions,
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

/// The length of a frame: a page with its header.
const FRAME: u64 = 4_096 + 24;

/// Zeros that are written at once.
const CHUNK: usize = 1 << 20;

/// Makes the log as long as that many frames need it. Nobody may have the database open, and it has to be there: SQLite
/// removes the log of a database that it has yet to make.
///
/// The zeros are written rather than reserved: a reserved extent is converted when it is first written, and that is
/// metadata again.
pub(super) fn lengthen(database: &Path, frames: u64) -> io::Result<()> {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let wanted = 32 + frames * FRAME;
    let mut length = file.seek(SeekFrom::End(0))?;
    if length >= wanted {
        return Ok(());
    }
    let zeros = vec![0; CHUNK];
    while length < wanted {
        let part = usize::try_from(wanted - length).map_or(CHUNK, |left| left.min(CHUNK));
        file.write_all(&zeros[..part])?;
        length += part as u64;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// Rows that were committed into a log behind which zeros lie.
    fn count(path: &Path) -> i64 {
        let connection = Connection::open(path).expect("opens");
        connection
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .expect("counts")
    }

    #[test]
    fn a_log_of_zeros_is_an_empty_one_and_keeps_its_length() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("a.db");
        let connection = Connection::open(&path).expect("opens");
        connection
            .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (a);")
            .expect("writes");
        connection.close().expect("closes");
        lengthen(&path, 100).expect("lengthens");
        let connection = Connection::open(&path).expect("opens");
        connection
            .execute_batch("INSERT INTO t VALUES (1);")
            .expect("writes");
        let length = directory
            .path()
            .join("a.db-wal")
            .metadata()
            .expect("is there")
            .len();
        assert_eq!(length, 32 + 100 * FRAME);
        assert_eq!(count(&path), 1);
    }

    #[test]
    fn zeros_behind_the_frames_of_a_dead_process_hide_nothing() {
        let directory = tempfile::tempdir().expect("a folder");
        let (path, copy) = (directory.path().join("a.db"), directory.path().join("b.db"));
        let connection = Connection::open(&path).expect("opens");
        connection
            .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (a); INSERT INTO t VALUES (1), (2);")
            .expect("writes");
        // What a dead process leaves: the database and its log, as they are now.
        for suffix in ["", "-wal"] {
            let file = |path: &Path| format!("{}{suffix}", path.display());
            std::fs::copy(file(&path), file(&copy)).expect("copies");
        }
        lengthen(&copy, 200).expect("lengthens");
        assert_eq!(count(&copy), 2);
    }
}
