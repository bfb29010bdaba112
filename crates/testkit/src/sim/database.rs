//! The simulated database: requests take time, are applied one after the other, and are durable from that moment on. It can
//! crash, refuse to write, stall, and lose answers.
//!
//! A request lives in the database, not in its caller: a caller that dies takes nothing back. What was not applied when the
//! database crashes is gone.

use super::{
    executor::{Executor, WORLD},
    history::{Committed, History},
    time::Time,
};
use crate::random::Random;
use portolan_core::{
    Fut,
    digest::Digest,
    event::Recorded,
    faults::{Plant, planted},
    ids::{Epoch, RunId, Seq, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{
    Admission, Admitted, Append, Appended, ClaimRequest, Claimed, Command, Commanded, Hub, InboxEntry,
    JournalError, JournalStore, RenewRequest, Renewed, RunFilter, RunRef, RunRow, ScopeBooks, ScopeKey,
    memory::MemoryJournal, row::Head,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::sync::oneshot;

/// How long a caller waits for an answer, in milliseconds.
const PATIENCE_MS: u64 = 3_000;

/// How long a stalled request takes, in milliseconds.
const STALL_MS: std::ops::Range<u64> = 2_000..30_000;

/// What can go wrong with a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) refused_permille: u64,
    pub(super) lost_permille: u64,
    pub(super) stalled_permille: u64,
    pub(super) hints_lost_permille: u64,
}

/// The database.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) journal: Arc<MemoryJournal>,
    executor: Executor,
    time: Time,
    random: Random,
    history: History,
    faults: Faults,
    is_healthy: AtomicBool,
    /// Raised by every crash: requests of an earlier life are gone.
    life: AtomicU64,
    is_down: AtomicBool,
    refuses_writes: AtomicBool,
    hubs: Mutex<BTreeMap<u64, Hub>>,
}

impl Database {
    pub(super) fn new(
        (executor, time, random): (Executor, Time, Random),
        history: History,
        faults: Faults,
    ) -> Arc<Self> {
        Arc::new(Self {
            journal: Arc::new(MemoryJournal::new()),
            executor,
            time,
            random,
            history,
            faults,
            is_healthy: AtomicBool::new(false),
            life: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
            refuses_writes: AtomicBool::new(false),
            hubs: Mutex::default(),
        })
    }

    /// No more faults from now on.
    pub(super) fn heal(&self) {
        self.is_healthy.store(true, Ordering::Relaxed);
        self.is_down.store(false, Ordering::Relaxed);
        self.refuses_writes.store(false, Ordering::Relaxed);
    }

    /// Crashes, and is away for a while.
    pub(super) async fn crash(&self, away_ms: u64) {
        self.history.note(format_args!("the database crashes"));
        self.life.fetch_add(1, Ordering::Relaxed);
        self.is_down.store(true, Ordering::Relaxed);
        self.time.sleep_ms(away_ms).await;
        self.is_down.store(false, Ordering::Relaxed);
    }

    /// Writes nothing for a while: the disk is full, or it is read-only.
    pub(super) async fn refuse(&self, for_ms: u64) {
        self.history.note(format_args!("the database refuses to write"));
        self.refuses_writes.store(true, Ordering::Relaxed);
        self.time.sleep_ms(for_ms).await;
        self.refuses_writes.store(false, Ordering::Relaxed);
    }

    /// A client for a process.
    pub(super) fn client(self: &Arc<Self>, process: u64) -> Arc<Client> {
        let hub = Hub::default();
        self.hubs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(process, hub.clone());
        Arc::new(Client {
            database: Arc::clone(self),
            process,
            hub,
        })
    }

    /// Forgets the hub of a process that died.
    pub(super) fn forget(&self, process: u64) {
        self.hubs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&process);
    }

    fn happens(&self, permille: u64) -> bool {
        let happens = !self.is_healthy.load(Ordering::Relaxed) && self.random.permille(permille);
        if happens {
            self.history.count(|counts| counts.store_faults += 1);
        }
        happens
    }

    /// Tells the processes what was committed: the own one at once, the others soon or never.
    fn announce(self: &Arc<Self>, from: u64, tell: impl Fn(&Hub) + Send + Sync + 'static) {
        let tell = Arc::new(tell);
        let hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (process, hub) in hubs {
            if process == from {
                tell(&hub);
            } else if !self.happens(self.faults.hints_lost_permille) {
                let (time, tell) = (self.time.clone(), Arc::clone(&tell));
                let delay = self.random.within(1..60);
                self.executor.spawn(
                    WORLD,
                    Box::pin(async move {
                        time.sleep_ms(delay).await;
                        tell(&hub);
                    }),
                );
            }
        }
    }

    /// Looks at a run right after a commit, and at the budgets that it counts in. An append names the generation that made it.
    async fn look(&self, run: RunRef, by: Option<Epoch>) {
        let Ok(Some(row)) = self.journal.run(run).await else {
            return;
        };
        let committed = Committed {
            at_us: self.time.now_us(),
            status: row.progress.status,
            epoch: by.unwrap_or(row.epoch),
            last_seq: row.last_seq,
        };
        self.history.committed(run, committed);
        if let Ok(Some(books)) = self.journal.scope_books(run.tenant, ScopeKey::Tenant).await
            && books.settled.saturating_add(books.reserved) > books.limit
        {
            self.history.inner().overshoots.push((run.tenant, books));
        }
    }
}

/// Whether a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

/// The connection of one process.
#[derive(Debug)]
pub(super) struct Client {
    database: Arc<Database>,
    process: u64,
    hub: Hub,
}

impl Client {
    /// Sends a request and waits for its answer.
    fn ask<T: Send + 'static>(
        &self,
        kind: Kind,
        apply: impl FnOnce(Arc<Database>) -> Fut<'static, Result<T, JournalError>> + Send + 'static,
    ) -> Fut<'_, Result<T, JournalError>> {
        Box::pin(async move {
            let database = &self.database;
            if database.is_down.load(Ordering::Relaxed) || database.happens(database.faults.refused_permille)
            {
                database.time.sleep_us(200).await;
                return Err(JournalError::NotCommitted(
                    "the database cannot be reached".to_owned(),
                ));
            }
            let (answer, answered) = oneshot::channel();
            let request = request(Arc::clone(database), kind, apply, answer);
            database.executor.spawn(WORLD, Box::pin(request));
            let patience = database.time.sleep_ms(PATIENCE_MS);
            let heard = tokio::select! {
                biased;
                heard = answered => heard.ok(),
                () = patience => None,
            };
            heard.unwrap_or_else(|| {
                let why = "the answer was lost".to_owned();
                Err(match kind {
                    Kind::Read => JournalError::NotCommitted(why),
                    Kind::Write => JournalError::Unknown(why),
                })
            })
        })
    }
}

/// A request on its way through the database. It goes on when its caller is gone.
async fn request<T: Send + 'static>(
    database: Arc<Database>,
    kind: Kind,
    apply: impl FnOnce(Arc<Database>) -> Fut<'static, Result<T, JournalError>> + Send + 'static,
    answer: oneshot::Sender<Result<T, JournalError>>,
) {
    let life = database.life.load(Ordering::Relaxed);
    let travel = match database.happens(database.faults.stalled_permille) {
        true => database.random.within(STALL_MS) * 1_000,
        false => database.random.within(100..3_000),
    };
    database.time.sleep_us(travel).await;
    if database.life.load(Ordering::Relaxed) != life {
        return;
    }
    if kind == Kind::Write && database.refuses_writes.load(Ordering::Relaxed) {
        let refused = JournalError::NotCommitted("no space left on device".to_owned());
        let _ = answer.send(Err(refused));
        return;
    }
    let applied = apply(Arc::clone(&database)).await;
    let back = database.random.within(50..500);
    database.time.sleep_us(back).await;
    let is_lost = database.happens(database.faults.lost_permille);
    if !is_lost && database.life.load(Ordering::Relaxed) == life {
        let _ = answer.send(applied);
    }
}

impl JournalStore for Client {
    fn admit(&self, admission: Admission) -> Fut<'_, Result<Admitted, JournalError>> {
        let from = self.process;
        let owned = admission.claim.as_ref().map(|_| Epoch(1));
        let admitted = self.ask(Kind::Write, move |database| {
            Box::pin(async move {
                let run = admission.run;
                let admitted = database.journal.admit(admission).await?;
                if matches!(admitted, Admitted::Created { .. }) {
                    database.look(run, None).await;
                    database.announce(from, move |hub| hub.committed(run, Seq(1), false));
                }
                Ok(admitted)
            })
        });
        if planted(Plant::AckBeforeCommit) {
            // Whatever becomes of the request, its caller hears that it is done.
            return Box::pin(async move {
                let _outcome = admitted.await;
                Ok(Admitted::Created { epoch: owned })
            });
        }
        admitted
    }

    fn idempotent(
        &self,
        tenant: TenantId,
        key: String,
        at: Timestamp,
    ) -> Fut<'_, Result<Option<(Digest, RunId)>, JournalError>> {
        self.ask(Kind::Read, move |database| {
            Box::pin(async move { database.journal.idempotent(tenant, key, at).await })
        })
    }

    fn claim(&self, request: ClaimRequest) -> Fut<'_, Result<Vec<Claimed>, JournalError>> {
        self.ask(Kind::Write, move |database| {
            Box::pin(async move {
                let claimed = database.journal.claim(request).await?;
                for claim in &claimed {
                    database.look(claim.run, None).await;
                }
                Ok(claimed)
            })
        })
    }

    fn append(&self, append: Append) -> Fut<'_, Result<Appended, JournalError>> {
        let from = self.process;
        self.ask(Kind::Write, move |database| {
            Box::pin(async move {
                let (run, by) = (append.run, append.epoch);
                let appended = database.journal.append(append).await?;
                if let Appended::Committed { last_seq, .. } | Appended::TopUpRefused { last_seq, .. } =
                    &appended
                {
                    database.look(run, Some(by)).await;
                    let row = database.journal.run(run).await?;
                    let ended = row.is_some_and(|row| row.progress.status.is_terminal());
                    let last_seq = *last_seq;
                    database.announce(from, move |hub| hub.committed(run, last_seq, ended));
                }
                Ok(appended)
            })
        })
    }

    fn renew(&self, request: RenewRequest) -> Fut<'_, Result<Renewed, JournalError>> {
        self.ask(Kind::Write, move |database| {
            Box::pin(async move { database.journal.renew(request).await })
        })
    }

    fn release(&self, runs: Vec<(RunRef, Epoch)>) -> Fut<'_, Result<(), JournalError>> {
        self.ask(Kind::Write, move |database| {
            Box::pin(async move { database.journal.release(runs).await })
        })
    }

    fn command(
        &self,
        run: RunRef,
        command: Command,
        at: Timestamp,
    ) -> Fut<'_, Result<Commanded, JournalError>> {
        let from = self.process;
        self.ask(Kind::Write, move |database| {
            Box::pin(async move {
                let commanded = database.journal.command(run, command, at).await?;
                if commanded == Commanded::Accepted {
                    database.announce(from, move |hub| hub.commanded(run));
                }
                Ok(commanded)
            })
        })
    }

    fn inbox(&self, run: RunRef) -> Fut<'_, Result<Vec<InboxEntry>, JournalError>> {
        self.ask(Kind::Read, move |database| {
            Box::pin(async move { database.journal.inbox(run).await })
        })
    }

    fn read(&self, run: RunRef, after: Seq, max: u32) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        self.ask(Kind::Read, move |database| {
            Box::pin(async move { database.journal.read(run, after, max).await })
        })
    }

    fn run(&self, run: RunRef) -> Fut<'_, Result<Option<RunRow>, JournalError>> {
        self.ask(Kind::Read, move |database| {
            Box::pin(async move { database.journal.run(run).await })
        })
    }

    fn heads(&self, runs: Vec<RunRef>) -> Fut<'_, Result<Vec<Head>, JournalError>> {
        self.ask(Kind::Read, move |database| {
            Box::pin(async move { database.journal.heads(runs).await })
        })
    }

    fn list(
        &self,
        tenant: TenantId,
        filter: RunFilter,
        max: u32,
    ) -> Fut<'_, Result<Vec<RunRow>, JournalError>> {
        self.ask(Kind::Read, move |database| {
            Box::pin(async move { database.journal.list(tenant, filter, max).await })
        })
    }

    fn set_scope_limit(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
        limit: Option<NanoUsd>,
    ) -> Fut<'_, Result<(), JournalError>> {
        self.ask(Kind::Write, move |database| {
            Box::pin(async move { database.journal.set_scope_limit(tenant, scope, limit).await })
        })
    }

    fn scope_books(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
    ) -> Fut<'_, Result<Option<ScopeBooks>, JournalError>> {
        self.ask(Kind::Read, move |database| {
            Box::pin(async move { database.journal.scope_books(tenant, scope).await })
        })
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }
}
