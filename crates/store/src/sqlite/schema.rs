//! Migrations: numbered files, forward only, each in one transaction with the number that it raises.
//!
//! The number is SQLite's own `user_version`, so there is one source of truth and no table of its own. (`refinery` would
//! work with this rusqlite, but it keeps a second record, panics on a damaged one, and brings a dozen crates along.)

use crate::steps::{self, LaterBuild, Step};
use portolan_core::faults::{self, Point};
use rusqlite::{Connection, TransactionBehavior};

/// What marks a database as ours: "PORT".
pub(super) const APPLICATION_ID: i32 = 0x504F_5254;

/// The migrations. Number n brings version n - 1 to version n; a released one is never edited.
const MIGRATIONS: &[Step] = &[
    Step {
        version: 1,
        name: "V1__initial",
        sql: include_str!("../../migrations/sqlite/V1__initial.sql"),
    },
    Step {
        version: 2,
        name: "V2__imports",
        sql: include_str!("../../migrations/sqlite/V2__imports.sql"),
    },
];

/// A schema that could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A later build wrote it.
    #[error(
        "the database has schema version {found}, and this build knows versions up to {known}: a later build wrote it"
    )]
    Newer {
        /// The version of the database.
        found: u32,
        /// The version of this build.
        known: u32,
    },
    /// An earlier build wrote it, and it is only to be read.
    #[error(
        "the database has schema version {found}, this build reads version {known}: start the server once"
    )]
    Older {
        /// The version of the database.
        found: u32,
        /// The version of this build.
        known: u32,
    },
    /// It is somebody else's database.
    #[error("the database belongs to another application")]
    Foreign,
    /// A migration failed. Nothing of it was kept.
    #[error("the migration {name} failed")]
    Failed {
        /// Which.
        name: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The version could not be read.
    #[error("the version of the schema cannot be read")]
    Unreadable(#[source] rusqlite::Error),
}

/// Refuses a database whose schema is not the one of this build. It is only read.
pub(super) fn expect_current(connection: &Connection) -> Result<(), MigrationError> {
    if application(connection)? != APPLICATION_ID {
        return Err(MigrationError::Foreign);
    }
    let known = steps::newest(MIGRATIONS);
    let lacks = pending(connection)?.len();
    match u32::try_from(lacks) {
        Ok(0) => Ok(()),
        Ok(lacks) => Err(MigrationError::Older {
            found: known.saturating_sub(lacks),
            known,
        }),
        Err(_) => Err(MigrationError::Foreign),
    }
}

fn pragma(connection: &Connection, name: &str) -> Result<i32, MigrationError> {
    connection
        .pragma_query_value(None, name, |row| row.get(0))
        .map_err(MigrationError::Unreadable)
}

fn application(connection: &Connection) -> Result<i32, MigrationError> {
    pragma(connection, "application_id")
}

/// Brings the schema up to date.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), MigrationError> {
    for step in pending(connection)? {
        apply(connection, step)?;
        faults::at_blocking(Point::MigrateBetween);
    }
    Ok(())
}

/// Every step.
pub(super) const fn all() -> &'static [Step] {
    MIGRATIONS
}

/// The steps that the database lacks.
pub(super) fn pending(connection: &Connection) -> Result<&'static [Step], MigrationError> {
    let (found, application) = (pragma(connection, "user_version")?, application(connection)?);
    let is_empty = pragma(connection, "schema_version")? == 0;
    let found = match u32::try_from(found) {
        Ok(found) if application == APPLICATION_ID || (is_empty && application == 0) => found,
        _ => return Err(MigrationError::Foreign),
    };
    steps::pending(MIGRATIONS, found)
        .map_err(|LaterBuild { found, known }| MigrationError::Newer { found, known })
}

/// Applies one step.
pub(super) fn apply(connection: &mut Connection, step: &Step) -> Result<(), MigrationError> {
    let run = |connection: &mut Connection| -> rusqlite::Result<()> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(step.sql)?;
        transaction.pragma_update(None, "user_version", step.version)?;
        transaction.commit()
    };
    run(connection).map_err(|source| MigrationError::Failed {
        name: step.name,
        source,
    })?;
    tracing::info!(migration = step.name, "schema migrated");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Connection {
        Connection::open_in_memory().expect("opens")
    }

    #[test]
    fn a_fresh_database_gets_the_newest_schema_once() {
        let mut connection = fresh();
        migrate(&mut connection).expect("migrates");
        migrate(&mut connection).expect("nothing is left to do");
        let version: i32 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .expect("has one");
        assert_eq!(usize::try_from(version), Ok(MIGRATIONS.len()));
    }

    #[test]
    fn later_and_foreign_schemas_are_refused_by_name() {
        let mut later = fresh();
        migrate(&mut later).expect("migrates");
        later.pragma_update(None, "user_version", 99).expect("sets");
        let refused = migrate(&mut later).expect_err("refused").to_string();
        assert!(refused.contains("version 99"), "{refused}");

        let mut foreign = fresh();
        foreign.execute_batch("CREATE TABLE t (a)").expect("creates");
        assert!(matches!(migrate(&mut foreign), Err(MigrationError::Foreign)));
    }

    #[test]
    fn every_key_and_index_begins_with_the_tenant() {
        let mut connection = fresh();
        migrate(&mut connection).expect("migrates");
        let sql = "SELECT i.name, c.name FROM sqlite_schema AS t, pragma_index_list(t.name) AS i, pragma_index_info(i.name) AS c
            WHERE t.type = 'table' AND c.seqno = 0";
        let mut statement = connection.prepare(sql).expect("prepares");
        let firsts: Vec<(String, String)> = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .and_then(Iterator::collect)
            .expect("lists");
        assert!(firsts.len() > 10, "only {firsts:?}");
        for (index, first) in firsts {
            assert!(
                first == "tenant_id" || index == "api_keys_by_hash",
                "{index} begins with {first}"
            );
        }
    }
}
