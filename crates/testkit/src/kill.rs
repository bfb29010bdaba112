//! The death of a process, in process: at a chosen point everything that is in flight stops for ever.

use portolan_core::{
    Fut,
    digest::Digest,
    event::Recorded,
    ids::{Epoch, RunId, Seq, TenantId},
    money::NanoUsd,
    time::{Clock, Timestamp},
};
use portolan_journal::{
    Admission, Admitted, Append, Appended, ClaimRequest, Claimed, Command, Commanded, Hub, InboxEntry,
    JournalError, JournalStore, RenewRequest, Renewed, RunFilter, RunRef, RunRow, ScopeBooks, ScopeKey,
    blob::{BlobError, BlobStore},
    import::{Import, Imported},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tokio::sync::Notify;

/// Kills at the n-th point that is passed, counted from 1. Clones share the count.
#[derive(Debug, Clone)]
pub struct KillSwitch(Arc<State>);

#[derive(Debug)]
struct State {
    passed: AtomicU64,
    kill_at: u64,
    dead: AtomicBool,
    killed: Notify,
}

impl KillSwitch {
    /// Kills at that point; 0 never kills and only counts.
    pub fn at(kill_at: u64) -> Self {
        Self(Arc::new(State {
            passed: AtomicU64::new(0),
            kill_at,
            dead: AtomicBool::new(false),
            killed: Notify::new(),
        }))
    }

    /// A point at which a process may die. The one that dies never goes on.
    pub async fn point(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
        let number = self.0.passed.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.0.kill_at {
            self.0.dead.store(true, Ordering::SeqCst);
            self.0.killed.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// Completes when the process is dead. Whoever drives the process drops it then.
    pub async fn killed(&self) {
        self.0.killed.notified().await;
    }

    /// Whether the process is dead: whatever it had in flight must not go on.
    pub fn is_dead(&self) -> bool {
        self.0.dead.load(Ordering::SeqCst)
    }

    /// A new process begins.
    pub fn revive(&self) {
        self.0.dead.store(false, Ordering::SeqCst);
    }

    /// How many points were passed.
    pub fn passed(&self) -> u64 {
        self.0.passed.load(Ordering::SeqCst)
    }
}

/// A clock whose timers stop with the process.
#[derive(Debug)]
pub struct KillingClock<C> {
    inner: C,
    switch: KillSwitch,
}

impl<C: Clock> KillingClock<C> {
    /// Wraps a clock that goes on.
    pub const fn new(inner: C, switch: KillSwitch) -> Self {
        Self { inner, switch }
    }
}

impl<C: Clock> Clock for KillingClock<C> {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn monotonic_us(&self) -> u64 {
        self.inner.monotonic_us()
    }

    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()> {
        let (sleep, switch) = (self.inner.sleep_ms(ms), self.switch.clone());
        Box::pin(async move {
            sleep.await;
            if switch.is_dead() {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// A journal whose process may die before and after each commit.
#[derive(Debug)]
pub struct KillingJournal {
    inner: Arc<dyn JournalStore>,
    switch: KillSwitch,
}

impl KillingJournal {
    /// Wraps a store that survives.
    pub fn new(inner: Arc<dyn JournalStore>, switch: KillSwitch) -> Self {
        Self { inner, switch }
    }

    fn around<'a, T: Send + 'a>(&'a self, call: Fut<'a, T>) -> Fut<'a, T> {
        Box::pin(async move {
            self.switch.point().await;
            let answer = call.await;
            self.switch.point().await;
            answer
        })
    }
}

impl JournalStore for KillingJournal {
    fn admit(&self, admission: Admission) -> Fut<'_, Result<Admitted, JournalError>> {
        self.inner.admit(admission)
    }

    fn idempotent(
        &self,
        tenant: TenantId,
        key: String,
        at: Timestamp,
    ) -> Fut<'_, Result<Option<(Digest, RunId)>, JournalError>> {
        self.inner.idempotent(tenant, key, at)
    }

    fn claim(&self, request: ClaimRequest) -> Fut<'_, Result<Vec<Claimed>, JournalError>> {
        self.inner.claim(request)
    }

    fn append(&self, append: Append) -> Fut<'_, Result<Appended, JournalError>> {
        // Lazily: a process that died before the commit must not have made it.
        self.around(Box::pin(async move { self.inner.append(append).await }))
    }

    fn renew(&self, request: RenewRequest) -> Fut<'_, Result<Renewed, JournalError>> {
        self.inner.renew(request)
    }

    fn release(&self, runs: Vec<(RunRef, Epoch)>) -> Fut<'_, Result<(), JournalError>> {
        self.inner.release(runs)
    }

    fn command(
        &self,
        run: RunRef,
        command: Command,
        at: Timestamp,
    ) -> Fut<'_, Result<Commanded, JournalError>> {
        self.inner.command(run, command, at)
    }

    fn inbox(&self, run: RunRef) -> Fut<'_, Result<Vec<InboxEntry>, JournalError>> {
        self.inner.inbox(run)
    }

    fn read(&self, run: RunRef, after: Seq, max: u32) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        self.inner.read(run, after, max)
    }

    fn run(&self, run: RunRef) -> Fut<'_, Result<Option<RunRow>, JournalError>> {
        self.inner.run(run)
    }

    fn list(
        &self,
        tenant: TenantId,
        filter: RunFilter,
        max: u32,
    ) -> Fut<'_, Result<Vec<RunRow>, JournalError>> {
        self.inner.list(tenant, filter, max)
    }

    fn set_scope_limit(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
        limit: Option<NanoUsd>,
    ) -> Fut<'_, Result<(), JournalError>> {
        self.inner.set_scope_limit(tenant, scope, limit)
    }

    fn scope_books(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
    ) -> Fut<'_, Result<Option<ScopeBooks>, JournalError>> {
        self.inner.scope_books(tenant, scope)
    }

    fn import(&self, import: Import) -> Fut<'_, Result<Imported, JournalError>> {
        self.inner.import(import)
    }

    fn hub(&self) -> &Hub {
        self.inner.hub()
    }
}

/// Blobs whose process may die before and after each write.
#[derive(Debug)]
pub struct KillingBlobs {
    inner: Arc<dyn BlobStore>,
    switch: KillSwitch,
}

impl KillingBlobs {
    /// Wraps a store that survives.
    pub fn new(inner: Arc<dyn BlobStore>, switch: KillSwitch) -> Self {
        Self { inner, switch }
    }
}

impl BlobStore for KillingBlobs {
    fn put(&self, contents: Vec<Vec<u8>>) -> Fut<'_, Result<Vec<Digest>, BlobError>> {
        Box::pin(async move {
            self.switch.point().await;
            let kept = self.inner.put(contents).await;
            self.switch.point().await;
            kept
        })
    }

    fn get(&self, digest: Digest) -> Fut<'_, Result<Vec<u8>, BlobError>> {
        self.inner.get(digest)
    }
}
