//! A store that fails on demand.

use portolan_core::{
    Fut,
    digest::Digest,
    event::Recorded,
    ids::{Epoch, RunId, Seq, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{
    Admission, Admitted, Append, Appended, ClaimRequest, Claimed, Command, Commanded, Hub, InboxEntry,
    JournalError, JournalStore, RenewRequest, Renewed, RunFilter, RunRef, RunRow, ScopeBooks, ScopeKey,
    memory::MemoryJournal,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// How the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not.
    None,
    /// It cannot be reached.
    Down,
    /// An admission is committed, and nobody is told.
    UnknownButCommitted,
    /// An admission is lost, and nobody is told.
    UnknownAndLost,
}

#[derive(Debug)]
pub(crate) struct FlakyJournal {
    inner: Arc<MemoryJournal>,
    fault: Mutex<Fault>,
    /// The bytes of all events that were read.
    pub(crate) read_bytes: AtomicUsize,
}

impl FlakyJournal {
    pub(crate) fn new(inner: Arc<MemoryJournal>) -> Self {
        Self {
            inner,
            fault: Mutex::new(Fault::None),
            read_bytes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock().expect("no panic") = fault;
    }

    fn fault(&self) -> Fault {
        *self.fault.lock().expect("no panic")
    }

    fn unless_down<'a, T: Send + 'a>(
        &self,
        call: impl FnOnce() -> Fut<'a, Result<T, JournalError>>,
    ) -> Fut<'a, Result<T, JournalError>> {
        match self.fault() {
            Fault::Down => Box::pin(std::future::ready(Err(JournalError::NotCommitted(
                "down".to_owned(),
            )))),
            Fault::None | Fault::UnknownButCommitted | Fault::UnknownAndLost => call(),
        }
    }
}

impl JournalStore for FlakyJournal {
    fn admit(&self, admission: Admission) -> Fut<'_, Result<Admitted, JournalError>> {
        let unknown = || Err(JournalError::Unknown("cut".to_owned()));
        match self.fault() {
            Fault::None | Fault::Down => self.unless_down(|| self.inner.admit(admission)),
            Fault::UnknownAndLost => Box::pin(std::future::ready(unknown())),
            Fault::UnknownButCommitted => Box::pin(async move {
                self.inner.admit(admission).await?;
                unknown()
            }),
        }
    }

    fn idempotent(
        &self,
        tenant: TenantId,
        key: String,
        at: Timestamp,
    ) -> Fut<'_, Result<Option<(Digest, RunId)>, JournalError>> {
        self.unless_down(|| self.inner.idempotent(tenant, key, at))
    }

    fn claim(&self, request: ClaimRequest) -> Fut<'_, Result<Vec<Claimed>, JournalError>> {
        self.unless_down(|| self.inner.claim(request))
    }

    fn append(&self, append: Append) -> Fut<'_, Result<Appended, JournalError>> {
        self.unless_down(|| self.inner.append(append))
    }

    fn renew(&self, request: RenewRequest) -> Fut<'_, Result<Renewed, JournalError>> {
        self.unless_down(|| self.inner.renew(request))
    }

    fn release(&self, runs: Vec<(RunRef, Epoch)>) -> Fut<'_, Result<(), JournalError>> {
        self.unless_down(|| self.inner.release(runs))
    }

    fn command(
        &self,
        run: RunRef,
        command: Command,
        at: Timestamp,
    ) -> Fut<'_, Result<Commanded, JournalError>> {
        self.unless_down(|| self.inner.command(run, command, at))
    }

    fn inbox(&self, run: RunRef) -> Fut<'_, Result<Vec<InboxEntry>, JournalError>> {
        self.unless_down(|| self.inner.inbox(run))
    }

    fn read(&self, run: RunRef, after: Seq, max: u32) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        self.read_page(run, after, max, usize::MAX)
    }

    fn read_page(
        &self,
        run: RunRef,
        after: Seq,
        max: u32,
        max_bytes: usize,
    ) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        let page = self.unless_down(|| self.inner.read_page(run, after, max, max_bytes));
        Box::pin(async move {
            let page = page.await?;
            let bytes = page.iter().map(|event| event.payload.len()).sum();
            self.read_bytes.fetch_add(bytes, Ordering::SeqCst);
            Ok(page)
        })
    }

    fn run(&self, run: RunRef) -> Fut<'_, Result<Option<RunRow>, JournalError>> {
        self.unless_down(|| self.inner.run(run))
    }

    fn list(
        &self,
        tenant: TenantId,
        filter: RunFilter,
        max: u32,
    ) -> Fut<'_, Result<Vec<RunRow>, JournalError>> {
        self.unless_down(|| self.inner.list(tenant, filter, max))
    }

    fn set_scope_limit(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
        limit: Option<NanoUsd>,
    ) -> Fut<'_, Result<(), JournalError>> {
        self.unless_down(|| self.inner.set_scope_limit(tenant, scope, limit))
    }

    fn scope_books(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
    ) -> Fut<'_, Result<Option<ScopeBooks>, JournalError>> {
        self.unless_down(|| self.inner.scope_books(tenant, scope))
    }

    fn hub(&self) -> &Hub {
        self.inner.hub()
    }
}
