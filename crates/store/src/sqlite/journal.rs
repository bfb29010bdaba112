//! The journal port on this store.

use super::{
    SqliteStore, read,
    write::{
        admit::Admit,
        append::AppendEvents,
        budget::{self, SetLimit},
        claim::TakeRuns,
        import::ImportRun,
        inbox::PutCommand,
        lease::{GiveBack, Renew},
    },
};
use crate::import::PreparedImport;
use portolan_core::{
    Fut,
    digest::Digest,
    event::Recorded,
    ids::{Epoch, RunId, Seq, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{
    Admission, Admitted, Append, Appended, ClaimRequest, Claimed, Command, Commanded, Glance, Head, Hub,
    Import, Imported, InboxEntry, JournalError, JournalStore, RenewRequest, Renewed, RunFilter, RunRef,
    RunRow, ScopeBooks, ScopeKey,
};

fn unwritable(error: &serde_json::Error) -> JournalError {
    JournalError::NotCommitted(format!("the request cannot be written: {error}"))
}

impl JournalStore for SqliteStore {
    fn admit(&self, admission: Admission) -> Fut<'_, Result<Admitted, JournalError>> {
        Box::pin(async move {
            let admit = Admit::new(admission).map_err(|error| unwritable(&error))?;
            self.write(admit).await
        })
    }

    fn idempotent(
        &self,
        tenant: TenantId,
        key: String,
        at: Timestamp,
    ) -> Fut<'_, Result<Option<(Digest, RunId)>, JournalError>> {
        Box::pin(self.query(move |connection| read::idempotent(connection, tenant, &key, at)))
    }

    fn claim(&self, request: ClaimRequest) -> Fut<'_, Result<Vec<Claimed>, JournalError>> {
        Box::pin(self.write(TakeRuns(request)))
    }

    fn append(&self, append: Append) -> Fut<'_, Result<Appended, JournalError>> {
        Box::pin(async move {
            let append = AppendEvents::new(append).map_err(|error| unwritable(&error))?;
            self.write(append).await
        })
    }

    fn import(&self, import: Import) -> Fut<'_, Result<Imported, JournalError>> {
        Box::pin(async move {
            let import = PreparedImport::new(import).map_err(|error| unwritable(&error))?;
            self.write(ImportRun(import)).await
        })
    }

    fn renew(&self, request: RenewRequest) -> Fut<'_, Result<Renewed, JournalError>> {
        Box::pin(self.write(Renew(request)))
    }

    fn release(&self, runs: Vec<(RunRef, Epoch)>) -> Fut<'_, Result<(), JournalError>> {
        Box::pin(self.write(GiveBack(runs)))
    }

    fn command(
        &self,
        run: RunRef,
        command: Command,
        at: Timestamp,
    ) -> Fut<'_, Result<Commanded, JournalError>> {
        Box::pin(self.write(PutCommand { run, command, at }))
    }

    fn inbox(&self, run: RunRef) -> Fut<'_, Result<Vec<InboxEntry>, JournalError>> {
        Box::pin(self.query(move |connection| read::inbox(connection, run)))
    }

    fn read(&self, run: RunRef, after: Seq, max: u32) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        Box::pin(self.query(move |connection| read::journal(connection, run, after, max)))
    }

    fn read_page(
        &self,
        run: RunRef,
        after: Seq,
        max: u32,
        max_bytes: usize,
    ) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        Box::pin(self.query(move |connection| read::page(connection, run, after, max, max_bytes)))
    }

    fn heads(&self, runs: Vec<RunRef>) -> Fut<'_, Result<Vec<Head>, JournalError>> {
        Box::pin(self.query(move |connection| read::heads(connection, &runs)))
    }

    fn run(&self, run: RunRef) -> Fut<'_, Result<Option<RunRow>, JournalError>> {
        Box::pin(self.query(move |connection| read::run(connection, run)))
    }

    fn glance(&self, run: RunRef) -> Fut<'_, Result<Option<Glance>, JournalError>> {
        Box::pin(self.query(move |connection| read::glance(connection, run)))
    }

    fn list(
        &self,
        tenant: TenantId,
        filter: RunFilter,
        max: u32,
    ) -> Fut<'_, Result<Vec<RunRow>, JournalError>> {
        Box::pin(self.query(move |connection| read::list(connection, tenant, filter, max)))
    }

    fn set_scope_limit(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
        limit: Option<NanoUsd>,
    ) -> Fut<'_, Result<(), JournalError>> {
        Box::pin(self.write(SetLimit { tenant, scope, limit }))
    }

    fn scope_books(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
    ) -> Fut<'_, Result<Option<ScopeBooks>, JournalError>> {
        Box::pin(self.query(move |connection| budget::read(connection, tenant, &scope)))
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }
}
