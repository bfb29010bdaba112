//! The audit of a store in a directory, live or left behind: read-only, without the directory's lock.
//!
//! A server may run on it meanwhile. Everything about one run is read in one transaction, so it is seen in one moment.

use super::{DirectoryError, StoreOpenError, code, fault::Fault, open, read, schema, write::budget};
use crate::sql;
use portolan_core::{
    Fut,
    ids::{RunId, TenantId},
    usage::TokenUsage,
};
use portolan_journal::{
    JournalError, RunRef, ScopeKey,
    audit::{AuditSource, AuditedScope, Dossier, DossierError, Stray, UsageRow},
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::{
    io,
    path::Path,
    sync::{Mutex, PoisonError},
};

/// Lines of the database's own check that are kept.
const MOST_DAMAGE: u32 = 20;

/// A store that is only read.
#[derive(Debug)]
pub struct SqliteAudit {
    connection: Mutex<Connection>,
}

impl SqliteAudit {
    /// Opens the store of a data directory. Blocks. Nothing is made, migrated or folded.
    pub fn open(directory: &Path) -> Result<Self, StoreOpenError> {
        let path = directory.join("portolan.db");
        if !path.is_file() {
            return Err(StoreOpenError::Directory(DirectoryError::Unusable {
                directory: directory.to_owned(),
                source: io::Error::new(io::ErrorKind::NotFound, "there is no portolan.db in it"),
            }));
        }
        let connection = open::reader(&path)?;
        schema::expect_current(&connection)?;
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    /// Reads in one transaction.
    fn look<T: Send>(&self, look: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let moment = connection.transaction()?;
        let found = look(&moment)?;
        moment.finish()?;
        Ok(found)
    }

    fn answer<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Fut<'_, Result<T, JournalError>> {
        Box::pin(std::future::ready(self.look(look).map_err(JournalError::from)))
    }
}

impl AuditSource for SqliteAudit {
    fn runs(&self, after: Option<RunRef>, max: u32) -> Fut<'_, Result<Vec<RunRef>, JournalError>> {
        self.answer(|connection| {
            let mut statement = connection.prepare_cached(sql::ALL_RUNS)?;
            let (tenant, run) = match after {
                Some(after) => (after.tenant.as_bytes().to_vec(), after.run.as_bytes().to_vec()),
                None => (Vec::new(), Vec::new()),
            };
            let found = statement.query_map(params![tenant, run, max], run_ref)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    fn dossier(&self, run: RunRef) -> Fut<'_, Result<Option<Dossier>, DossierError>> {
        let found = self.look(|connection| dossier(connection, run));
        let found = found.map_err(|fault| match JournalError::from(fault) {
            JournalError::Corrupt(what) => DossierError::Unreadable(what),
            error @ (JournalError::NotCommitted(_) | JournalError::Unknown(_)) => DossierError::Store(error),
        });
        Box::pin(std::future::ready(found))
    }

    fn scopes(&self) -> Fut<'_, Result<Vec<AuditedScope>, JournalError>> {
        self.answer(|connection| {
            let mut statement = connection.prepare_cached(sql::SCOPES)?;
            let mut rows = statement.query([])?;
            let mut scopes = Vec::new();
            while let Some(row) = rows.next()? {
                let tenant = TenantId::from_bytes(row.get(0)?);
                let agent: String = row.get(1)?;
                let scope = agent.parse().map_or(ScopeKey::Tenant, ScopeKey::Agent);
                let held_by_runs = code::money(row.get(2)?)?;
                if let Some(books) = budget::read(connection, tenant, &scope)? {
                    scopes.push(AuditedScope {
                        tenant,
                        scope,
                        books,
                        held_by_runs,
                    });
                }
            }
            Ok(scopes)
        })
    }

    fn strays(&self, max: u32) -> Fut<'_, Result<Vec<Stray>, JournalError>> {
        self.answer(|connection| {
            let mut strays = Vec::new();
            for table in sql::OF_RUNS {
                let mut statement = connection.prepare(&sql::strays(table))?;
                for run in statement.query_map([max], run_ref)? {
                    strays.push(Stray { table, run: run? });
                }
            }
            Ok(strays)
        })
    }

    fn damage(&self) -> Fut<'_, Result<Vec<String>, JournalError>> {
        self.answer(|connection| {
            let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MOST_DAMAGE})"))?;
            let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
            let lines: Vec<String> = lines.collect::<Result<_, _>>()?;
            Ok(lines.into_iter().filter(|line| line != "ok").collect())
        })
    }
}

fn run_ref(row: &Row<'_>) -> rusqlite::Result<RunRef> {
    Ok(RunRef {
        tenant: TenantId::from_bytes(row.get(0)?),
        run: RunId::from_bytes(row.get(1)?),
    })
}

fn dossier(connection: &Connection, run: RunRef) -> Result<Option<Dossier>, Fault> {
    let Some(row) = read::run(connection, run)? else {
        return Ok(None);
    };
    let key = params![run.tenant.as_bytes(), run.run.as_bytes()];
    let (inbox_count, inbox): (i64, i64) = connection
        .prepare_cached(sql::INBOX_COUNTS)?
        .query_row(key, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let usage = connection
        .prepare_cached(sql::USAGE)?
        .query_row(key, |row| Ok(usage(row)))
        .optional()?
        .transpose()?;
    Ok(Some(Dossier {
        row,
        events: read::whole_journal(connection, run)?,
        usage: usage.into_iter().collect(),
        inbox: code::count(inbox)?,
        inbox_count: code::count(inbox_count)?,
    }))
}

fn usage(row: &Row<'_>) -> Result<UsageRow, Fault> {
    let count = |column: usize| -> Result<u64, Fault> { Ok(code::count(row.get(column)?)?) };
    let cost: Option<i64> = row.get(8)?;
    Ok(UsageRow {
        day: row.get(0)?,
        status: code::status(row.get(1)?)?,
        model_calls: code::small(row.get(2)?)?,
        tool_calls: code::small(row.get(3)?)?,
        tokens: TokenUsage {
            tokens_in: count(4)?,
            tokens_out: count(5)?,
            tokens_cached: count(6)?,
            tokens_reasoning: count(7)?,
        },
        cost: cost.map(code::money).transpose()?,
        cost_is_estimate: row.get(9)?,
        is_imported: row.get(10)?,
    })
}
