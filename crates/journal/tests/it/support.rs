//! A store whose every read may be interrupted, and a reader that is polled by hand.

use futures::FutureExt as _;
use portolan_core::{
    Fut,
    event::Recorded,
    ids::{Epoch, OwnerId, RunId, Seq, TenantId},
    money::NanoUsd,
    time::{Clock, Timestamp},
};
use portolan_journal::{
    Admission, Admitted, Append, Appended, Claim, ClaimRequest, Claimed, Command, Commanded, Head, Hub,
    InboxEntry, JournalError, JournalStore, NewEvent, Progress, RenewRequest, Renewed, RunFilter, RunRef,
    RunRow, RunStatus, ScopeBooks, ScopeKey, Tail, TailItem, TailTimes, memory::MemoryJournal,
};
use portolan_testkit::clock::VirtualClock;
use std::{
    fmt,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

pub(crate) const TIMES: TailTimes = TailTimes {
    heartbeat_ms: 15_000,
    poll_ms: 2_000,
};

/// A moment in a call of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A page was asked for, and the store has not looked yet.
    BeforePage,
    /// The page is fixed, and the reader does not have it yet.
    AfterPage,
    /// Heads were asked for, and the store has not looked yet.
    BeforeHeads,
    /// The heads are fixed, and nobody has them yet.
    AfterHeads,
}

type Hook = Box<dyn FnMut(Moment) + Send>;

/// The store in memory with a hub of its own: it announces nothing unless the test does.
pub(crate) struct SeamStore {
    pub(crate) inner: MemoryJournal,
    hub: Hub,
    hook: Mutex<Option<Hook>>,
    /// Overrides the answer to the next page.
    pub(crate) forced: Mutex<Vec<Result<Vec<Recorded>, JournalError>>>,
    pub(crate) heads_fail: Mutex<bool>,
    /// The bytes of each page that was given out.
    pub(crate) pages: Mutex<Vec<usize>>,
    /// The number of runs of each question for heads.
    pub(crate) heads: Mutex<Vec<usize>>,
}

impl fmt::Debug for SeamStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeamStore")
    }
}

impl SeamStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryJournal::new(),
            hub: Hub::default(),
            hook: Mutex::new(None),
            forced: Mutex::new(Vec::new()),
            heads_fail: Mutex::new(false),
            pages: Mutex::new(Vec::new()),
            heads: Mutex::new(Vec::new()),
        })
    }

    pub(crate) fn hook(&self, hook: impl FnMut(Moment) + Send + 'static) {
        *self.hook.lock().expect("no panic") = Some(Box::new(hook));
    }

    fn pass(&self, moment: Moment) {
        let hook = self.hook.lock().expect("no panic").take();
        if let Some(mut hook) = hook {
            hook(moment);
            *self.hook.lock().expect("no panic") = Some(hook);
        }
    }

    /// Admits a run and claims it.
    pub(crate) fn begin(&self, number: u8) -> RunRef {
        let run = run(number);
        let admission = Admission {
            run,
            agent: "writer".parse().expect("a name"),
            agent_version: 1,
            tags: Vec::new(),
            queued: event("run_queued", 2),
            reserve: NanoUsd::ZERO,
            idempotency: None,
            claim: Some(Claim {
                owner: OwnerId::from_bytes([1; 16]),
                lease_until: Timestamp::EPOCH.plus_ms(60_000),
            }),
            at: Timestamp::EPOCH,
        };
        ready(self.inner.admit(admission)).expect("memory works");
        run
    }

    /// Commits an event and tells nobody.
    pub(crate) fn commit(&self, run: RunRef, kind: &str, bytes: usize) {
        let status = match kind {
            "run_succeeded" => RunStatus::Succeeded,
            _ => RunStatus::Running,
        };
        let append = Append {
            run,
            epoch: Epoch(1),
            after: None,
            at: Timestamp::EPOCH,
            active_ms: 0,
            events: vec![event(kind, bytes)],
            progress: Progress {
                status,
                ..Progress::default()
            },
            advances: true,
            settle: None,
            top_up: None,
            consumed: Vec::new(),
            release: None,
        };
        let appended = ready(self.inner.append(append)).expect("memory works");
        assert!(matches!(appended, Appended::Committed { .. }), "{appended:?}");
    }

    /// Tells the followers of a run what is committed.
    pub(crate) fn hint(&self, run: RunRef) {
        let row = ready(self.inner.run(run)).expect("memory works").expect("a run");
        self.hub
            .committed(run, row.last_seq, row.progress.status.is_terminal());
    }

    /// Follows a run.
    pub(crate) fn follow(self: &Arc<Self>, clock: &VirtualClock, run: RunRef, after: u64) -> Reader {
        let tail = Tail::new(
            Arc::clone(self) as Arc<dyn JournalStore>,
            Arc::new(clock.clone()) as Arc<dyn Clock>,
            run,
            Seq(after),
            TIMES,
        );
        Reader {
            tail,
            seen: Vec::new(),
        }
    }
}

/// A reader of a tail, and what it was shown.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) tail: Tail,
    pub(crate) seen: Vec<u64>,
}

impl Reader {
    /// The next item, if there is one without waiting. What it waits for is dropped, as a client that goes away drops it.
    pub(crate) fn poll(&mut self) -> Option<TailItem> {
        let item = until_it_sleeps(&mut pin!(self.tail.next()));
        if let Some(TailItem::Event(event)) = &item {
            self.seen.push(event.seq.0);
        }
        item
    }

    /// Takes events until it would wait, and tells what came that was no event.
    pub(crate) fn drain(&mut self) -> Option<TailItem> {
        loop {
            match self.poll() {
                Some(TailItem::Event(_)) => {}
                other => return other,
            }
        }
    }
}

/// Polls as an executor does: again and again while the future wakes itself.
pub(crate) fn until_it_sleeps<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> Option<F::Output> {
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    while woken.0.swap(false, Ordering::SeqCst) {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
    }
    None
}

pub(crate) fn run(number: u8) -> RunRef {
    RunRef {
        tenant: TenantId::from_bytes([1; 16]),
        run: RunId::from_bytes([number; 16]),
    }
}

pub(crate) fn event(kind: &str, bytes: usize) -> NewEvent {
    NewEvent {
        kind: kind.to_owned().into(),
        step: None,
        attempt: None,
        payload: vec![b'1'; bytes].into(),
    }
}

/// The answer of the store in memory, which never waits.
pub(crate) fn ready<T>(future: Fut<'_, T>) -> T {
    future.now_or_never().expect("the store in memory does not wait")
}

impl JournalStore for SeamStore {
    fn admit(&self, admission: Admission) -> Fut<'_, Result<Admitted, JournalError>> {
        self.inner.admit(admission)
    }

    fn claim(&self, request: ClaimRequest) -> Fut<'_, Result<Vec<Claimed>, JournalError>> {
        self.inner.claim(request)
    }

    fn append(&self, append: Append) -> Fut<'_, Result<Appended, JournalError>> {
        self.inner.append(append)
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
        self.read_page(run, after, max, usize::MAX)
    }

    fn read_page(
        &self,
        run: RunRef,
        after: Seq,
        max: u32,
        max_bytes: usize,
    ) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        Box::pin(async move {
            self.pass(Moment::BeforePage);
            let forced = self.forced.lock().expect("no panic").pop();
            let page = match forced {
                Some(forced) => forced,
                None => self.inner.read_page(run, after, max, max_bytes).await,
            };
            if let Ok(page) = &page {
                let bytes = page.iter().map(|event| event.payload.len()).sum();
                self.pages.lock().expect("no panic").push(bytes);
            }
            self.pass(Moment::AfterPage);
            page
        })
    }

    fn heads(&self, runs: Vec<RunRef>) -> Fut<'_, Result<Vec<Head>, JournalError>> {
        Box::pin(async move {
            self.heads.lock().expect("no panic").push(runs.len());
            self.pass(Moment::BeforeHeads);
            if *self.heads_fail.lock().expect("no panic") {
                return Err(JournalError::NotCommitted("the store is away".to_owned()));
            }
            let heads = self.inner.heads(runs).await;
            self.pass(Moment::AfterHeads);
            heads
        })
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

    fn hub(&self) -> &Hub {
        &self.hub
    }
}
