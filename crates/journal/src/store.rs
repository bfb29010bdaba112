//! The port to a store of runs.

use crate::{
    append::{Admission, Admitted, Append, Appended, ClaimRequest, Claimed, RenewRequest, Renewed},
    hub::Hub,
    import::{Import, Imported},
    row::{Command, Commanded, Glance, Head, InboxEntry, RunFilter, RunRef, RunRow, ScopeBooks, ScopeKey},
};
use portolan_core::{
    Fut,
    digest::Digest,
    event::Recorded,
    ids::{Epoch, RunId, Seq, TenantId},
    money::NanoUsd,
    time::Timestamp,
};

/// Why a store did not answer. What it says about the world decides what the caller may do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Nothing was written. It may be tried again.
    #[error("the store did not commit: {0}")]
    NotCommitted(String),
    /// Nobody knows whether it was written: read back before anything else.
    #[error("the outcome of the commit is unknown: {0}")]
    Unknown(String),
    /// What is stored cannot be read.
    #[error("what is stored cannot be read: {0}")]
    Corrupt(String),
}

/// Events that are read at once by a store that cannot stop at a weight.
const EVENTS_AT_ONCE: u32 = 8;

/// A store of runs and their journals.
///
/// Contract: every method is one transaction. What a method reports as committed survives any crash. Appends of several
/// runs may share a flush, but each is judged alone: one that is fenced or refused never undoes its neighbours. The store
/// never retries. After a commit it tells the hub, and only then.
pub trait JournalStore: Send + Sync + std::fmt::Debug {
    /// Creates a run with its first event, holds its money and claims its idempotency key.
    fn admit(&self, admission: Admission) -> Fut<'_, Result<Admitted, JournalError>>;

    /// The run that an idempotency key made, with the fingerprint of its request, while the key is kept. For a request that
    /// could not be admitted any more: what it made earlier is still its answer. A store that cannot tell knows of none.
    fn idempotent(
        &self,
        _tenant: TenantId,
        _key: String,
        _at: Timestamp,
    ) -> Fut<'_, Result<Option<(Digest, RunId)>, JournalError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Takes runs that are queued, due, or whose owner is dead, oldest first. Each claim raises the run's epoch; a
    /// re-drive is counted before anybody looks at the journal.
    fn claim(&self, request: ClaimRequest) -> Fut<'_, Result<Vec<Claimed>, JournalError>>;

    /// Writes the next piece of a journal if the epoch holds.
    fn append(&self, append: Append) -> Fut<'_, Result<Appended, JournalError>>;

    /// Extends the leases of an owner and notes the active time of its runs.
    fn renew(&self, request: RenewRequest) -> Fut<'_, Result<Renewed, JournalError>>;

    /// Gives runs back so that another worker can claim them at once. Stale epochs are skipped.
    fn release(&self, runs: Vec<(RunRef, Epoch)>) -> Fut<'_, Result<(), JournalError>>;

    /// Puts a command into the inbox of a run, without an epoch.
    fn command(
        &self,
        run: RunRef,
        command: Command,
        at: Timestamp,
    ) -> Fut<'_, Result<Commanded, JournalError>>;

    /// The commands that wait for the owner of a run.
    fn inbox(&self, run: RunRef) -> Fut<'_, Result<Vec<InboxEntry>, JournalError>>;

    /// Events strictly after a place, at most so many, dense and in order.
    fn read(&self, run: RunRef, after: Seq, max: u32) -> Fut<'_, Result<Vec<Recorded>, JournalError>>;

    /// Events strictly after a place, dense and in order: at most so many, and none that makes them weigh more than
    /// `max_bytes` of payload, but for the first, which always comes. What a reader holds in memory is bounded by it.
    fn read_page(
        &self,
        run: RunRef,
        after: Seq,
        max: u32,
        max_bytes: usize,
    ) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        Box::pin(async move {
            let mut page: Vec<Recorded> = Vec::new();
            let mut bytes = 0;
            loop {
                let left = max.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
                let wanted = left.min(EVENTS_AT_ONCE);
                let last = page.last().map_or(after, |event| event.seq);
                let found = self.read(run, last, wanted).await?;
                let is_all = wanted < EVENTS_AT_ONCE || found.len() < EVENTS_AT_ONCE as usize;
                for event in found {
                    bytes += event.payload.len();
                    if bytes > max_bytes && !page.is_empty() {
                        return Ok(page);
                    }
                    page.push(event);
                }
                if is_all {
                    return Ok(page);
                }
            }
        })
    }

    /// How far these runs are, in any order; runs that do not exist are left out. It answers for hundreds of runs at once, so a
    /// store that can does so with one question.
    fn heads(&self, runs: Vec<RunRef>) -> Fut<'_, Result<Vec<Head>, JournalError>> {
        Box::pin(async move {
            let mut heads = Vec::with_capacity(runs.len());
            for at in runs {
                heads.extend(self.run(at).await?.map(|row| Head {
                    at,
                    last_seq: row.last_seq,
                    ended: row.progress.status.is_terminal(),
                }));
            }
            Ok(heads)
        })
    }

    /// The row of a run.
    fn run(&self, run: RunRef) -> Fut<'_, Result<Option<RunRow>, JournalError>>;

    /// The row of a run with its first and its last event, seen in one moment where the store can.
    fn glance(&self, run: RunRef) -> Fut<'_, Result<Option<Glance>, JournalError>> {
        Box::pin(async move {
            let Some(row) = self.run(run).await? else {
                return Ok(None);
            };
            let before_last = Seq(row.last_seq.0.saturating_sub(1));
            let first = self.read(run, Seq::ZERO, 1).await?.pop();
            let last = self.read(run, before_last, 1).await?.pop();
            let (first, last) = first
                .zip(last)
                .ok_or_else(|| JournalError::Corrupt(format!("{} has no events", run.run)))?;
            Ok(Some(Glance { row, first, last }))
        })
    }

    /// The rows of a tenant, newest first.
    fn list(
        &self,
        tenant: TenantId,
        filter: RunFilter,
        max: u32,
    ) -> Fut<'_, Result<Vec<RunRow>, JournalError>>;

    /// Sets the limit of a budget scope and opens its books, or closes it with its books.
    fn set_scope_limit(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
        limit: Option<NanoUsd>,
    ) -> Fut<'_, Result<(), JournalError>>;

    /// The books of a scope that has a limit.
    fn scope_books(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
    ) -> Fut<'_, Result<Option<ScopeBooks>, JournalError>>;

    /// Writes a run that ended elsewhere: row, events and usage, or nothing. No budget is touched, and its usage is marked so that
    /// it is not billed again. A store that cannot refuses.
    fn import(&self, _import: Import) -> Fut<'_, Result<Imported, JournalError>> {
        let refused = JournalError::NotCommitted("this store takes no imports".to_owned());
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Where commits are announced within this process.
    fn hub(&self) -> &Hub;
}
