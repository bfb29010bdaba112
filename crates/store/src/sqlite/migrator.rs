//! Migrations one step at a time, for whoever wants to see them. Opening a store applies all of them.

use super::{
    DirectoryLock, StoreOpenError, directory,
    open::{reader, unmigrated},
    schema,
};
use crate::steps::Step;
use rusqlite::Connection;
use std::path::Path;

/// Brings the schema of a data directory up to date, step by step. It holds the directory meanwhile. Everything here blocks.
#[derive(Debug)]
pub struct Migrator {
    connection: Connection,
    _lock: DirectoryLock,
}

impl Migrator {
    /// Takes hold of the directory; a database that is not there is made.
    pub fn open(data_directory: &Path) -> Result<Self, StoreOpenError> {
        let lock = directory::hold_directory(data_directory)?;
        let connection = unmigrated(&data_directory.join("portolan.db"))?;
        Ok(Self {
            connection,
            _lock: lock,
        })
    }

    /// The steps that a directory lacks, without making or changing anything; a server may run on it.
    pub fn look(data_directory: &Path) -> Result<&'static [Step], StoreOpenError> {
        let path = data_directory.join("portolan.db");
        if !path.exists() {
            return Ok(schema::all());
        }
        Ok(schema::pending(&reader(&path)?)?)
    }

    /// Applies the next step; `None` if there is none.
    pub fn apply_next(&mut self) -> Result<Option<Step>, StoreOpenError> {
        let Some(step) = schema::pending(&self.connection)?.first() else {
            return Ok(None);
        };
        schema::apply(&mut self.connection, step)?;
        Ok(Some(*step))
    }
}
