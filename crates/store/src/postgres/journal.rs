//! The journal port on this store.

use super::{
    PostgresStore, Queue,
    connect::Reader,
    fault::Fault,
    lane::{Job, Waiting},
    read,
    write::{
        admit::Admit,
        budget::SetLimit,
        claim::TakeRuns,
        import::ImportRun,
        inbox::PutCommand,
        lease::{GiveBack, Renew},
    },
};
use crate::import::PreparedImport;
use crate::judge::PreparedAppend;
use deadpool_postgres::Object;
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

impl PostgresStore {
    /// Runs a query on a connection that reads.
    pub(super) fn reading<'a, T: Send + 'a>(
        &'a self,
        query: impl for<'c> FnOnce(&'c Object) -> Fut<'c, Result<T, Fault>> + Send + 'a,
    ) -> Fut<'a, Result<T, JournalError>> {
        Box::pin(Reader::bounded(async move {
            let client = self.readers.get().await?;
            query(&client).await.map_err(Fault::not_committed)
        }))
    }
}

impl JournalStore for PostgresStore {
    fn admit(&self, admission: Admission) -> Fut<'_, Result<Admitted, JournalError>> {
        Box::pin(async move {
            let run = admission.run.run;
            let admit = Admit::new(admission).map_err(|error| unwritable(&error))?;
            let (waiting, answer) = Waiting::new(admit);
            self.ask(Queue::Of(run), Job::Admit(waiting), answer).await
        })
    }

    fn idempotent(
        &self,
        tenant: TenantId,
        key: String,
        at: Timestamp,
    ) -> Fut<'_, Result<Option<(Digest, RunId)>, JournalError>> {
        self.reading(move |client| Box::pin(async move { read::idempotent(client, tenant, &key, at).await }))
    }

    fn claim(&self, request: ClaimRequest) -> Fut<'_, Result<Vec<Claimed>, JournalError>> {
        Box::pin(self.write(Queue::Rest, TakeRuns(request)))
    }

    fn append(&self, append: Append) -> Fut<'_, Result<Appended, JournalError>> {
        Box::pin(async move {
            let run = append.run.run;
            let append = PreparedAppend::new(append).map_err(|error| unwritable(&error))?;
            let (waiting, answer) = Waiting::new(append);
            self.ask(Queue::Of(run), Job::Append(waiting), answer).await
        })
    }

    fn import(&self, import: Import) -> Fut<'_, Result<Imported, JournalError>> {
        Box::pin(async move {
            let import = PreparedImport::new(import).map_err(|error| unwritable(&error))?;
            self.write(Queue::Rest, ImportRun(import)).await
        })
    }

    fn renew(&self, request: RenewRequest) -> Fut<'_, Result<Renewed, JournalError>> {
        Box::pin(self.write(Queue::Leases, Renew(request)))
    }

    fn release(&self, runs: Vec<(RunRef, Epoch)>) -> Fut<'_, Result<(), JournalError>> {
        Box::pin(self.write(Queue::Leases, GiveBack(runs)))
    }

    fn command(
        &self,
        run: RunRef,
        command: Command,
        at: Timestamp,
    ) -> Fut<'_, Result<Commanded, JournalError>> {
        Box::pin(self.write(Queue::Of(run.run), PutCommand { run, command, at }))
    }

    fn inbox(&self, run: RunRef) -> Fut<'_, Result<Vec<InboxEntry>, JournalError>> {
        self.reading(move |client| Box::pin(read::inbox(client, run)))
    }

    fn read(&self, run: RunRef, after: Seq, max: u32) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        self.reading(move |client| Box::pin(read::journal(client, run, after, max)))
    }

    fn read_page(
        &self,
        run: RunRef,
        after: Seq,
        max: u32,
        max_bytes: usize,
    ) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        self.reading(move |client| Box::pin(read::page(client, run, after, max, max_bytes)))
    }

    fn heads(&self, runs: Vec<RunRef>) -> Fut<'_, Result<Vec<Head>, JournalError>> {
        self.reading(move |client| {
            Box::pin(async move {
                let heads = read::heads(client, &runs).await?;
                Ok(heads.into_iter().map(|(head, _)| head).collect())
            })
        })
    }

    fn run(&self, run: RunRef) -> Fut<'_, Result<Option<RunRow>, JournalError>> {
        self.reading(move |client| Box::pin(read::run(client, run)))
    }

    fn glance(&self, run: RunRef) -> Fut<'_, Result<Option<Glance>, JournalError>> {
        self.reading(move |client| Box::pin(read::glance(client, run)))
    }

    fn list(
        &self,
        tenant: TenantId,
        filter: RunFilter,
        max: u32,
    ) -> Fut<'_, Result<Vec<RunRow>, JournalError>> {
        self.reading(move |client| Box::pin(read::list(client, tenant, filter, max)))
    }

    fn set_scope_limit(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
        limit: Option<NanoUsd>,
    ) -> Fut<'_, Result<(), JournalError>> {
        Box::pin(self.write(Queue::Rest, SetLimit { tenant, scope, limit }))
    }

    fn scope_books(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
    ) -> Fut<'_, Result<Option<ScopeBooks>, JournalError>> {
        self.reading(move |client| Box::pin(async move { read::books(client, tenant, &scope).await }))
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }
}
