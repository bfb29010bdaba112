//! Connections: opened with the settings that the promises rest on, each read back.

use super::{
    directory::DirectoryError,
    schema::{self, MigrationError},
};
use rusqlite::{Connection, OpenFlags, types::Value};
use std::{io, path::Path, time::Duration};

/// Below this version a checkpoint can damage a database (the WAL-reset bug, fixed in 3.51.3).
const LEAST_SQLITE: i32 = 3_051_003;

/// Larger pages waste less of themselves on rows of a kilobyte, smaller ones write less per commit.
const PAGE_SIZE: i64 = 4_096;

/// How long a connection waits for another one of this process.
const BUSY: Duration = Duration::from_secs(1);

/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 128;

/// A store that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The directory cannot be used.
    #[error("the store has no directory")]
    Directory(#[from] DirectoryError),
    /// The schema cannot be used.
    #[error("the store has no schema")]
    Schema(#[from] MigrationError),
    /// The library is too old.
    #[error("SQLite {found} can damage a database; 3.51.3 is needed")]
    OldSqlite {
        /// Its version.
        found: &'static str,
    },
    /// A setting did not hold, so that a commit might not survive a power cut.
    #[error("the database setting {setting} is {found} instead of {wanted}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What it has to be.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// The database cannot be used.
    #[error("the database cannot be used")]
    Database(#[from] rusqlite::Error),
    /// The file of the write-ahead log could not be made.
    #[error("the write-ahead log cannot be made as long as it has to be")]
    Log(#[source] io::Error),
    /// A thread could not be started.
    #[error("a thread of the store cannot be started")]
    Thread(#[from] io::Error),
}

/// Makes a database that is not there, and leaves it closed.
pub(super) fn make(path: &Path) -> Result<(), StoreOpenError> {
    if !path.exists() {
        drop(writer(path)?);
    }
    Ok(())
}

/// Opens the connection that writes, and makes or migrates the database.
pub(super) fn writer(path: &Path) -> Result<Connection, StoreOpenError> {
    let mut connection = unmigrated(path)?;
    schema::migrate(&mut connection)?;
    Ok(connection)
}

/// Opens the connection that writes, whatever the schema is.
pub(super) fn unmigrated(path: &Path) -> Result<Connection, StoreOpenError> {
    if rusqlite::version_number() < LEAST_SQLITE {
        return Err(StoreOpenError::OldSqlite {
            found: rusqlite::version(),
        });
    }
    let connection = open(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    connection.pragma_update(None, "page_size", PAGE_SIZE)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    hold("journal_mode", "wal", &mode)?;
    set(&connection, "synchronous", "FULL", 2)?;
    set(&connection, "foreign_keys", "ON", 1)?;
    // Checkpoints are made beside the commits, not within them.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    set(&connection, "cache_size", "-16384", -16_384)?;
    Ok(connection)
}

/// Opens a connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreOpenError> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    set(&connection, "query_only", "ON", 1)?;
    Ok(connection)
}

/// Opens the connection that folds the write-ahead log into the database.
pub(super) fn checkpointer(path: &Path) -> Result<Connection, StoreOpenError> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set(&connection, "synchronous", "FULL", 2)?;
    Ok(connection)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, StoreOpenError> {
    // Each connection belongs to one thread at a time, so that SQLite's own locks are not needed.
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Sets a number and reads it back.
fn set(
    connection: &Connection,
    setting: &'static str,
    word: &str,
    wanted: i64,
) -> Result<(), StoreOpenError> {
    let word = word
        .parse()
        .map_or_else(|_| Value::Text(word.to_owned()), Value::Integer);
    connection.pragma_update(None, setting, word)?;
    let found: i64 = connection.pragma_query_value(None, setting, |row| row.get(0))?;
    hold(setting, &wanted.to_string(), &found.to_string())
}

fn hold(setting: &'static str, wanted: &str, found: &str) -> Result<(), StoreOpenError> {
    if wanted == found {
        return Ok(());
    }
    Err(StoreOpenError::Setting {
        setting,
        wanted: wanted.to_owned(),
        found: found.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_does_not_hold_is_an_error() {
        let connection = Connection::open_in_memory().expect("opens");
        set(&connection, "synchronous", "FULL", 2).expect("holds");
        let error = set(&connection, "synchronous", "NORMAL", 2).expect_err("does not hold");
        assert_eq!(
            error.to_string(),
            "the database setting synchronous is 1 instead of 2"
        );
    }

    #[test]
    fn a_reader_cannot_write() {
        let directory = tempfile::tempdir().expect("made");
        let path = directory.path().join("a.db");
        drop(writer(&path).expect("opens"));
        let reader = reader(&path).expect("opens");
        assert!(reader.execute("DELETE FROM runs", []).is_err());
    }
}
