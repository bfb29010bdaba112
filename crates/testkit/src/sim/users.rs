//! Users: they start runs under idempotency keys until they are told that they exist, cancel some, and follow others.

use super::{
    executor::WORLD,
    history::History,
    process::{Life, Processes},
    swarm::Swarm,
};
use portolan_core::{
    digest::Digest,
    entropy::Entropy,
    event::{Event, RunQueued},
    ids::{RunId, Seq, TenantId},
    money::NanoUsd,
};
use portolan_engine::host::Launch;
use portolan_journal::{
    Admission, Admitted, Command, Commanded, IdempotencyClaim, JournalStore as _, NewEvent, RunRef,
    tail::{Tail, TailItem, TailTimes},
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{mpsc, oneshot};

/// How long a key is kept: longer than any simulation.
const KEEP_MS: u64 = 24 * 60 * 60 * 1_000;

/// How long a user waits before it asks again.
const AGAIN_MS: u64 = 100;

/// The tenant of that number.
pub(super) fn tenant(number: u64) -> TenantId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&(number + 1).to_be_bytes());
    TenantId::from_bytes(bytes)
}

/// All users.
#[derive(Debug, Clone)]
pub(super) struct Users {
    processes: Arc<Processes>,
    history: History,
    swarm: Arc<Swarm>,
    /// Runs that are still to be started.
    left: Arc<AtomicU64>,
    /// Users and readers that are not done.
    busy: Arc<AtomicU64>,
}

impl Users {
    pub(super) fn begin(swarm: &Swarm, processes: &Arc<Processes>) -> Self {
        let users = Self {
            processes: Arc::clone(processes),
            history: processes.history.clone(),
            swarm: Arc::new(swarm.clone()),
            left: Arc::new(AtomicU64::new(swarm.runs)),
            busy: Arc::new(AtomicU64::new(swarm.users)),
        };
        for _ in 0..swarm.users {
            let user = users.clone();
            processes.executor.spawn(WORLD, Box::pin(user.go_on()));
        }
        users
    }

    /// Whether everybody got what they wanted.
    pub(super) fn are_done(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }

    fn take(&self) -> Option<u64> {
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.ok()
    }

    async fn go_on(self) {
        while let Some(number) = self.take() {
            let random = &self.processes.random;
            let tenant = tenant(random.within(0..self.swarm.tenants));
            let key = format!("key-{number}");
            self.history.inner().begun.insert((tenant, key.clone()));
            let Some(run) = self.start(tenant, &key).await else {
                continue;
            };
            if random.percent(self.swarm.readers_percent) {
                self.busy.fetch_add(1, Ordering::Relaxed);
                let reader = self.clone();
                self.processes.executor.spawn(
                    WORLD,
                    Box::pin(async move {
                        reader.follow(number, run).await;
                        reader.busy.fetch_sub(1, Ordering::Relaxed);
                    }),
                );
            }
            if random.percent(self.swarm.cancels_percent) {
                let wait = random.within(0..2_000);
                self.processes.time.sleep_ms(wait).await;
                self.cancel(run).await;
            }
            let pause = random.within(0..500);
            self.processes.time.sleep_ms(pause).await;
        }
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    /// Asks until it is told; `None`: the budget has no room.
    async fn start(&self, tenant: TenantId, key: &str) -> Option<RunRef> {
        loop {
            let place = self.processes.random.index(self.processes.len());
            if let Some(life) = self.processes.alive(place) {
                let (told, answer) = oneshot::channel();
                let (processes, name) = (Arc::clone(&self.processes), key.to_owned());
                let group = life.group;
                let request = async move {
                    let _ = told.send(create(&processes, &life, tenant, name).await);
                };
                self.processes.executor.spawn(group, Box::pin(request));
                match self.within(answer).await {
                    Some(Created::Run(run)) => {
                        self.history.note(format_args!("acknowledged {key} {run}"));
                        let mut inner = self.history.inner();
                        inner
                            .acknowledged
                            .entry((tenant, key.to_owned()))
                            .or_default()
                            .insert(run);
                        drop(inner);
                        return Some(RunRef { tenant, run });
                    }
                    Some(Created::OverBudget) => return None,
                    Some(Created::Again) | None => {}
                }
            }
            self.processes.time.sleep_ms(AGAIN_MS).await;
        }
    }

    /// An answer, unless the process dies or takes too long.
    async fn within<T>(&self, answer: oneshot::Receiver<T>) -> Option<T> {
        let patience = self.processes.time.sleep_ms(10_000);
        tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = patience => None,
        }
    }

    async fn cancel(&self, run: RunRef) {
        self.history.inner().cancelled.insert(run);
        loop {
            let place = self.processes.random.index(self.processes.len());
            if let Some(life) = self.processes.alive(place) {
                let (told, answer) = oneshot::channel();
                let group = life.group;
                let request = async move {
                    let commanded = life.client.command(run, Command::Cancel, life.clock.now()).await;
                    if matches!(commanded, Ok(Commanded::Accepted)) {
                        life.host.poke();
                    }
                    let _ = told.send(commanded);
                };
                self.processes.executor.spawn(group, Box::pin(request));
                if matches!(self.within(answer).await, Some(Ok(_))) {
                    return;
                }
            }
            self.processes.time.sleep_ms(AGAIN_MS).await;
        }
    }

    /// Reads a run to its end, over as many connections as it takes.
    async fn follow(&self, reader: u64, run: RunRef) {
        let mut after = Seq::ZERO;
        loop {
            let place = self.processes.random.index(self.processes.len());
            let Some(life) = self.processes.alive(place) else {
                self.processes.time.sleep_ms(AGAIN_MS).await;
                continue;
            };
            {
                let mut inner = self.history.inner();
                inner.readers.entry((reader, run)).or_default().connections += 1;
            }
            let (sending, mut events) = mpsc::channel(4);
            self.processes
                .executor
                .spawn(life.group, Box::pin(serve(life.clone(), run, after, sending)));
            // Some readers come back after a few events.
            let mut patience = match self.processes.random.percent(50) {
                true => self.processes.random.within(1..8),
                false => u64::MAX,
            };
            while let Some(item) = self.next(&mut events).await {
                match item {
                    TailItem::Event(event) => {
                        self.history.read(reader, run, &event);
                        after = event.seq;
                        patience -= 1;
                        if patience == 0 {
                            break;
                        }
                    }
                    TailItem::HeartbeatDue => {}
                    TailItem::Ended => {
                        let mut inner = self.history.inner();
                        inner.readers.entry((reader, run)).or_default().ended = true;
                        return;
                    }
                    TailItem::ComeAgain(_) => break,
                }
            }
            self.processes.time.sleep_ms(20).await;
        }
    }

    /// What the stream says next; a process that is paused says nothing for longer than a reader waits.
    async fn next(&self, events: &mut mpsc::Receiver<TailItem>) -> Option<TailItem> {
        let patience = self.processes.time.sleep_ms(45_000);
        tokio::select! {
            biased;
            item = events.recv() => item,
            () = patience => None,
        }
    }
}

/// The server's side of a stream.
async fn serve(life: Life, run: RunRef, after: Seq, sending: mpsc::Sender<TailItem>) {
    let times = TailTimes {
        heartbeat_ms: 15_000,
        poll_ms: 2_000,
    };
    // A run that has ended has nothing after its last event: the API answers 204.
    match life.client.run(run).await {
        Ok(Some(row)) if row.progress.status.is_terminal() && after >= row.last_seq => {
            let _ = sending.send(TailItem::Ended).await;
            return;
        }
        Ok(_) => {}
        Err(_) => return,
    }
    let mut tail = Tail::new(life.client.clone(), life.clock.clone(), run, after, times);
    loop {
        let item = tail.next().await;
        let is_last = matches!(item, TailItem::Ended | TailItem::ComeAgain(_));
        if sending.send(item).await.is_err() || is_last {
            return;
        }
    }
}

/// What a request to start a run came to.
enum Created {
    Run(RunId),
    OverBudget,
    Again,
}

/// What the API does with `POST /v1/runs`.
async fn create(processes: &Processes, life: &Life, tenant: TenantId, key: String) -> Created {
    let agent = processes.agent();
    let at = life.clock.now();
    let entropy: &dyn Entropy = processes.entropy();
    let run = RunRef {
        tenant,
        run: entropy.run_id(at),
    };
    let queued = RunQueued {
        agent_name: agent.definition.name.clone(),
        agent_version: agent.version,
        input: json!({ "key": key }),
        files: BTreeMap::new(),
        limits: Default::default(),
        tags: Vec::new(),
        metadata: BTreeMap::new(),
        parent_run_id: None,
    };
    let Ok(event) = NewEvent::encode(&Event::RunQueued(Box::new(queued.clone())), None) else {
        return Created::Again;
    };
    let slot = life.host.reserve();
    let admission = Admission {
        run,
        agent: agent.definition.name.clone(),
        agent_version: agent.version,
        tags: Vec::new(),
        queued: event,
        reserve: NanoUsd::ZERO,
        idempotency: Some(IdempotencyClaim {
            fingerprint: Digest::of(key.as_bytes()),
            key,
            expires_at: at.plus_ms(KEEP_MS),
        }),
        claim: slot.as_ref().map(portolan_engine::Slot::claim),
        at,
    };
    match life.client.admit(admission).await {
        Ok(Admitted::Created { epoch }) => {
            match slot.zip(epoch) {
                Some((slot, epoch)) => life.host.launch(
                    slot,
                    Launch {
                        run,
                        epoch,
                        queued,
                        agent,
                        at,
                    },
                ),
                None => life.host.poke(),
            }
            Created::Run(run.run)
        }
        Ok(Admitted::Replayed(made)) => Created::Run(made),
        Ok(Admitted::OverBudget { .. }) => Created::OverBudget,
        Ok(Admitted::KeyReused) | Err(_) => Created::Again,
    }
}
