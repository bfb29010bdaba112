//! Migrations: numbered files, forward only, each in one transaction with the row that records it.
//!
//! The record is the table `portolan_schema`. Whoever migrates locks it first, so of several replicas one applies a step and the
//! others find it done.

use super::{
    connect::{Link, Target},
    fault::{is_collision, said},
    open::{self, PostgresOpenError},
};
use crate::steps::{self, LaterBuild, Step};
use portolan_core::faults::{self, Point};
use std::cmp::Ordering;
use tokio_postgres::error::{Error, SqlState};

/// The migrations; a released one is never edited.
const MIGRATIONS: &[Step] = &[
    Step {
        version: 1,
        name: "V1__initial",
        sql: include_str!("../../migrations/postgres/V1__initial.sql"),
    },
    Step {
        version: 2,
        name: "V2__blobs",
        sql: include_str!("../../migrations/postgres/V2__blobs.sql"),
    },
    Step {
        version: 3,
        name: "V3__imports",
        sql: include_str!("../../migrations/postgres/V3__imports.sql"),
    },
];

/// How often the record is made against others who make it too.
const ATTEMPTS: u32 = 10;

/// A schema that is not the expected one, or could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum PostgresMigrationError {
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
    /// An earlier build wrote it.
    #[error("the database has schema version {found} and this build needs {known}: run `portolan migrate`")]
    Behind {
        /// The version of the database.
        found: u32,
        /// The version of this build.
        known: u32,
    },
    /// There is nothing in it, and it is only to be read.
    #[error("the database is empty: no server was ever started on it")]
    Empty,
    /// It is somebody else's database.
    #[error("the database has tables, and they are not those of this application")]
    Foreign,
    /// A migration failed. Nothing of it was kept.
    #[error("the migration {name} failed: {why}")]
    Failed {
        /// Which.
        name: &'static str,
        /// Why.
        why: String,
    },
    /// The version could not be read.
    #[error("the version of the schema cannot be read: {0}")]
    Unreadable(String),
}

impl From<LaterBuild> for PostgresMigrationError {
    fn from(later: LaterBuild) -> Self {
        let LaterBuild { found, known } = later;
        Self::Newer { found, known }
    }
}

fn unreadable(error: &Error) -> PostgresMigrationError {
    PostgresMigrationError::Unreadable(said(error))
}

/// The version that this build writes.
pub(super) fn newest() -> u32 {
    steps::newest(MIGRATIONS)
}

/// Brings the schema up to date, step by step.
#[derive(Debug)]
pub struct Migrator(Link);

impl Migrator {
    /// Connects.
    pub async fn connect(url: &str) -> Result<Self, PostgresOpenError> {
        let target = Target::parse(url)?;
        let link = target.connect().await;
        link.map(Self).map_err(|fault| open::unreachable(&fault))
    }

    /// The steps that the database lacks.
    pub async fn pending(&self) -> Result<&'static [Step], PostgresMigrationError> {
        let found = version(&self.0).await?.unwrap_or(0);
        Ok(steps::pending(MIGRATIONS, found)?)
    }

    /// Applies the next step; `None` if there is none.
    pub async fn apply_next(&self) -> Result<Option<Step>, PostgresMigrationError> {
        // A foreign database is refused before anything is made in it.
        version(&self.0).await?;
        apply_next(&self.0).await
    }
}

/// The version of the schema; `None` for an empty database.
pub(super) async fn version(link: &Link) -> Result<Option<u32>, PostgresMigrationError> {
    let sql = "SELECT to_regclass('portolan_schema') IS NOT NULL,
        EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema())";
    let row = link
        .client
        .query_one(sql, &[])
        .await
        .map_err(|error| unreadable(&error))?;
    let get = |place| row.try_get(place).map_err(|error| unreadable(&error));
    let (is_ours, has_tables): (bool, bool) = (get(0)?, get(1)?);
    match (is_ours, has_tables) {
        (true, _) => recorded(link).await.map(Some).map_err(|error| unreadable(&error)),
        (false, false) => Ok(None),
        (false, true) => Err(PostgresMigrationError::Foreign),
    }
}

async fn recorded(link: &Link) -> Result<u32, Error> {
    let sql = "SELECT coalesce(max(version), 0) FROM portolan_schema";
    let found: i64 = link.client.query_one(sql, &[]).await?.try_get(0)?;
    // A number that is none of ours is one of a later build.
    Ok(u32::try_from(found).unwrap_or(u32::MAX))
}

/// Refuses a database whose schema is not the one of this build. It is only read.
pub(super) async fn expect_current(link: &Link) -> Result<(), PostgresMigrationError> {
    let known = newest();
    let found = version(link).await?.ok_or(PostgresMigrationError::Empty)?;
    match found.cmp(&known) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(PostgresMigrationError::Behind { found, known }),
        Ordering::Greater => Err(PostgresMigrationError::Newer { found, known }),
    }
}

/// Gives a database that was never used its schema; any other must have it. One without a tenant was not used: a start was cut
/// between two steps, or another replica is at them at this moment.
pub(super) async fn make_or_check(link: &Link) -> Result<(), PostgresMigrationError> {
    let found = version(link).await?.unwrap_or(0);
    let known = newest();
    if found > known {
        return Err(PostgresMigrationError::Newer { found, known });
    }
    if found == known {
        return Ok(());
    }
    if found > 0 && is_used(link).await.map_err(|error| unreadable(&error))? {
        return Err(PostgresMigrationError::Behind { found, known });
    }
    while apply_next(link).await?.is_some() {
        faults::at(Point::MigrateBetween).await;
    }
    Ok(())
}

async fn is_used(link: &Link) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM tenants) OR EXISTS (SELECT 1 FROM runs)";
    link.client.query_one(sql, &[]).await?.try_get(0)
}

async fn apply_next(link: &Link) -> Result<Option<Step>, PostgresMigrationError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut at = "portolan_schema";
        let applied = step(link, &mut at).await;
        let error = match applied {
            Ok(applied) => return Ok(applied),
            Err(StepError::Later(later)) => {
                roll_back(link).await;
                return Err(later.into());
            }
            Err(StepError::Statement(error)) => error,
        };
        roll_back(link).await;
        if attempt >= ATTEMPTS || !is_race(&error) {
            return Err(PostgresMigrationError::Failed {
                name: at,
                why: said(&error),
            });
        }
    }
}

async fn roll_back(link: &Link) {
    if let Err(error) = link.client.batch_execute("ROLLBACK").await {
        tracing::debug!(error = said(&error), "the connection ended with the migration");
    }
}

enum StepError {
    Statement(Error),
    Later(LaterBuild),
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

/// One transaction: the lock, the number, the step.
async fn step(link: &Link, at: &mut &'static str) -> Result<Option<Step>, StepError> {
    link.client
        .batch_execute(
            "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s';
             CREATE TABLE IF NOT EXISTS portolan_schema (
                 version    bigint      NOT NULL PRIMARY KEY,
                 name       text        NOT NULL,
                 applied_at timestamptz NOT NULL DEFAULT now()
             );
             LOCK TABLE portolan_schema IN ACCESS EXCLUSIVE MODE",
        )
        .await?;
    let found = recorded(link).await?;
    let pending = steps::pending(MIGRATIONS, found).map_err(StepError::Later)?;
    let Some(step) = pending.first() else {
        link.client.batch_execute("COMMIT").await?;
        return Ok(None);
    };
    *at = step.name;
    link.client.batch_execute(step.sql).await?;
    let sql = "INSERT INTO portolan_schema (version, name) VALUES ($1, $2)";
    link.client
        .execute(sql, &[&i64::from(step.version), &step.name])
        .await?;
    link.client.batch_execute("COMMIT").await?;
    tracing::info!(migration = step.name, "schema migrated");
    Ok(Some(*step))
}

/// Whether somebody else made the record at the same moment: `IF NOT EXISTS` does not wait for those who have not committed.
fn is_race(error: &Error) -> bool {
    is_collision(error)
        || error.code().is_some_and(|code| {
            [
                SqlState::UNIQUE_VIOLATION,
                SqlState::DUPLICATE_TABLE,
                SqlState::DUPLICATE_OBJECT,
            ]
            .contains(code)
        })
}
