//! The audit of a database, with servers on it or without: one connection, read-only.
//!
//! Everything about one run is read in one snapshot, so it is seen in one moment whatever the servers write meanwhile.

use super::{
    connect::{Link, Target},
    fault::Fault,
    open::{self, PostgresOpenError},
    read::{self, get, key, query},
    schema,
};
use crate::{code, sql};
use deadpool_postgres::ClientWrapper;
use portolan_core::{Fut, digest::Digest, usage::TokenUsage};
use portolan_journal::{
    JournalError, RunRef, ScopeKey,
    audit::{AuditSource, AuditedScope, Dossier, DossierError, Stray, UsageRow},
    blob::{BlobError, BlobStore},
};
use tokio::sync::Mutex;
use tokio_postgres::Row;

/// A look at many rows may take its time: nobody waits for it but the auditor.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '10min'";

/// Places with damage that are told.
const MOST_DAMAGE: i64 = 20;

/// A database that is only read.
#[derive(Debug)]
pub struct PostgresAudit {
    target: Target,
    /// Taken out while it is used, so that a look that was given up takes its transaction with it.
    idle: Mutex<Option<Link>>,
}

impl PostgresAudit {
    /// Connects. Nothing is made and nothing migrated; a standby will do.
    pub async fn open(url: &str) -> Result<Self, PostgresOpenError> {
        let target = Target::parse(url)?;
        let link = target
            .connect()
            .await
            .map_err(|fault| open::unreachable(&fault))?;
        schema::expect_current(&link).await?;
        Ok(Self {
            target,
            idle: Mutex::new(Some(link)),
        })
    }

    /// Reads in one snapshot.
    async fn look<T>(
        &self,
        look: impl for<'a> FnOnce(&'a ClientWrapper) -> Fut<'a, Result<T, Fault>> + Send,
    ) -> Result<T, Fault> {
        let idle = self.idle.lock().await.take();
        let link = match idle.filter(Link::is_good) {
            Some(link) => link,
            None => self.target.connect().await?,
        };
        link.client.batch_execute(BEGIN).await?;
        let found = look(&link.client).await;
        // One that cannot say this is left behind.
        if link.client.batch_execute("ROLLBACK").await.is_ok() {
            *self.idle.lock().await = Some(link);
        }
        found
    }

    async fn answer<T>(
        &self,
        look: impl for<'a> FnOnce(&'a ClientWrapper) -> Fut<'a, Result<T, Fault>> + Send,
    ) -> Result<T, JournalError> {
        self.look(look).await.map_err(Fault::not_committed)
    }
}

impl AuditSource for PostgresAudit {
    fn runs(&self, after: Option<RunRef>, max: u32) -> Fut<'_, Result<Vec<RunRef>, JournalError>> {
        Box::pin(self.answer(move |client| {
            Box::pin(async move {
                let (tenant, run) = after.as_ref().map_or((&[][..], &[][..]), key);
                let rows = query(client, sql::ALL_RUNS, &[&tenant, &run, &i64::from(max)]).await?;
                rows.iter().map(run_ref).collect()
            })
        }))
    }

    fn dossier(&self, run: RunRef) -> Fut<'_, Result<Option<Dossier>, DossierError>> {
        Box::pin(async move {
            let found = self.look(move |client| Box::pin(dossier(client, run))).await;
            found.map_err(|fault| match fault {
                Fault::Corrupt(what) => DossierError::Unreadable(what),
                fault => DossierError::Store(fault.not_committed()),
            })
        })
    }

    fn scopes(&self) -> Fut<'_, Result<Vec<AuditedScope>, JournalError>> {
        Box::pin(self.answer(|client| Box::pin(scopes(client))))
    }

    fn strays(&self, max: u32) -> Fut<'_, Result<Vec<Stray>, JournalError>> {
        Box::pin(self.answer(move |client| {
            Box::pin(async move {
                let mut strays = Vec::new();
                for table in sql::OF_RUNS {
                    for row in query(client, &sql::strays(table), &[&i64::from(max)]).await? {
                        let run = run_ref(&row)?;
                        strays.push(Stray { table, run });
                    }
                }
                Ok(strays)
            })
        }))
    }

    fn damage(&self) -> Fut<'_, Result<Vec<String>, JournalError>> {
        Box::pin(self.answer(|client| Box::pin(damage(client))))
    }
}

impl BlobStore for PostgresAudit {
    fn put(&self, _contents: Vec<Vec<u8>>) -> Fut<'_, Result<Vec<Digest>, BlobError>> {
        let refused = BlobError::Unusable("the store was opened to be read".to_owned());
        Box::pin(std::future::ready(Err(refused)))
    }

    fn get(&self, digest: Digest) -> Fut<'_, Result<Vec<u8>, BlobError>> {
        Box::pin(async move {
            let found = self
                .answer(move |client| Box::pin(read::blob(client, digest)))
                .await;
            let content = found.map_err(|error| BlobError::Unusable(error.to_string()))?;
            let content = content.ok_or(BlobError::Missing(digest))?;
            if Digest::of(&content) == digest {
                Ok(content)
            } else {
                Err(BlobError::Damaged(digest))
            }
        })
    }
}

fn run_ref(row: &Row) -> Result<RunRef, Fault> {
    Ok(RunRef {
        tenant: read::tenant(row, 0)?,
        run: read::run_id(row, 1)?,
    })
}

async fn dossier(client: &ClientWrapper, run: RunRef) -> Result<Option<Dossier>, Fault> {
    let Some(row) = read::run(client, run).await? else {
        return Ok(None);
    };
    let (tenant, id) = key(&run);
    let counts = query(client, sql::INBOX_COUNTS, &[&tenant, &id]).await?;
    let counts = counts.first().ok_or(Fault::Again)?;
    let usage = query(client, sql::USAGE, &[&tenant, &id]).await?;
    Ok(Some(Dossier {
        row,
        events: read::whole_journal(client, run).await?,
        usage: usage.iter().map(usage_row).collect::<Result<_, _>>()?,
        inbox: code::count(get(counts, 1)?)?,
        inbox_count: code::count(get(counts, 0)?)?,
    }))
}

fn usage_row(row: &Row) -> Result<UsageRow, Fault> {
    let count = |column: usize| -> Result<u64, Fault> { Ok(code::count(get(row, column)?)?) };
    let cost: Option<i64> = get(row, 8)?;
    Ok(UsageRow {
        day: get(row, 0)?,
        status: code::status(get(row, 1)?)?,
        model_calls: code::small(get(row, 2)?)?,
        tool_calls: code::small(get(row, 3)?)?,
        tokens: TokenUsage {
            tokens_in: count(4)?,
            tokens_out: count(5)?,
            tokens_cached: count(6)?,
            tokens_reasoning: count(7)?,
        },
        cost: cost.map(code::money).transpose()?,
        cost_is_estimate: get::<i64>(row, 9)? != 0,
        is_imported: get::<i64>(row, 10)? != 0,
    })
}

async fn scopes(client: &ClientWrapper) -> Result<Vec<AuditedScope>, Fault> {
    let mut scopes = Vec::new();
    for row in query(client, sql::SCOPES, &[]).await? {
        let tenant = read::tenant(&row, 0)?;
        let agent: &str = get(&row, 1)?;
        let scope = agent.parse().map_or(ScopeKey::Tenant, ScopeKey::Agent);
        let held_by_runs = code::money(get(&row, 2)?)?;
        if let Some(books) = read::books(client, tenant, &scope).await? {
            scopes.push(AuditedScope {
                tenant,
                scope,
                books,
                held_by_runs,
            });
        }
    }
    Ok(scopes)
}

/// What the server knows of damage: indexes that it does not trust, pages whose checksum was wrong, and, where the extension
/// `amcheck` is installed, indexes that are not those of their tables.
async fn damage(client: &ClientWrapper) -> Result<Vec<String>, Fault> {
    let of_ours = "FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        JOIN pg_class AS t ON t.oid = i.indrelid
        WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind = 'r'";
    let mut damage = Vec::new();
    let distrusted = format!(
        "SELECT c.relname::text {of_ours} AND NOT (i.indisvalid AND i.indisready AND i.indislive) ORDER BY 1 LIMIT $1"
    );
    for row in query(client, &distrusted, &[&MOST_DAMAGE]).await? {
        damage.push(format!("the index {} is not valid", get::<&str>(&row, 0)?));
    }
    let pages =
        "SELECT coalesce(max(checksum_failures), 0) FROM pg_stat_database WHERE datname = current_database()";
    for row in query(client, pages, &[]).await? {
        let failures: i64 = get(&row, 0)?;
        if failures > 0 {
            damage.push(format!(
                "{failures} pages had a wrong checksum when they were read"
            ));
        }
    }
    let extension = "SELECT 1 FROM pg_extension AS e WHERE e.extname = 'amcheck' AND NOT pg_is_in_recovery()";
    if query(client, extension, &[]).await?.is_empty() {
        return Ok(damage);
    }
    let checked = format!("SELECT c.relname::text, c.oid {of_ours} AND i.indisvalid ORDER BY 1");
    for row in query(client, &checked, &[]).await? {
        let (name, index): (&str, u32) = (get(&row, 0)?, get(&row, 1)?);
        client.batch_execute("SAVEPOINT one_index").await?;
        let sound = query(
            client,
            "SELECT bt_index_check($1::oid::regclass, true)",
            &[&index],
        )
        .await;
        match sound {
            Ok(_) => client.batch_execute("RELEASE one_index").await?,
            Err(Fault::Statement(error)) if error.as_db_error().is_some() => {
                client.batch_execute("ROLLBACK TO one_index").await?;
                damage.push(format!("the index {name}: {}", super::fault::said(&error)));
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(damage)
}
