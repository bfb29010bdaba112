//! Processes: a host of the engine each, with an owner id, a clock and a connection of its own. One that died is another one
//! when it comes back.

use super::{
    database::{Client, Database},
    executor::{Executor, Group},
    history::History,
    provider::{Provider, SimModel, SimPrices},
    swarm::Swarm,
    time::{ProcessClock, Time},
    tools::SimPreparer,
};
use crate::{entropy::SeededEntropy, random::Random};
use portolan_core::{
    Fut,
    agent::{AgentDefinition, AgentName, AgentStore, AgentVersion},
    ids::{AgentId, TenantId},
    key::AdminStoreError,
    time::{Clock, Timestamp},
};
use portolan_engine::{Deps, Host, HostOptions, NoLedger, Unobserved};
use portolan_journal::{DeadOwners, JournalStore, blob::MemoryBlobs};
use serde_json::json;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

/// How long a lease holds, and how often free runs are looked for: as in the product.
pub(super) const LEASE_MS: u64 = 15_000;
pub(super) const SWEEP_MS: u64 = 5_000;

/// The agent of every run. Its task is longer than the tokens of a call, so that the worst case is none too small.
pub(super) fn agent() -> Arc<AgentVersion> {
    let definition = json!({
        "name": "sim", "model": super::provider::MODEL,
        "task": "Go on until you are done, then say so. This sentence is here to be longer than what a call may be billed for in tokens.",
        "resultSchema": {"type": "string"},
        "limits": {"wallTimeMs": 120_000, "maxOutputTokens": 20},
        "retries": {"maxAttempts": 8, "initialMs": 50, "maxMs": 2_000, "timeoutMs": 5_000},
    });
    let definition: AgentDefinition = serde_json::from_value(definition).expect("a definition");
    Arc::new(AgentVersion {
        id: AgentId::from_bytes([3; 16]),
        version: 1,
        definition,
        created_at: Timestamp(0),
        retired: false,
    })
}

/// One life of a process.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) group: Group,
    pub(super) host: Arc<Host>,
    pub(super) client: Arc<Client>,
    pub(super) clock: Arc<dyn Clock>,
}

/// All processes.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) executor: Executor,
    pub(super) time: Time,
    pub(super) random: Random,
    pub(super) history: History,
    pub(super) database: Arc<Database>,
    pub(super) provider: Arc<Provider>,
    agent: Arc<AgentVersion>,
    places: usize,
    entropy: Arc<SeededEntropy>,
    groups: AtomicU64,
    lives: Mutex<Vec<Option<Life>>>,
    skews: Vec<Arc<AtomicI64>>,
}

impl Processes {
    pub(super) fn new(
        swarm: &Swarm,
        seed: u64,
        (executor, time, random): (Executor, Time, Random),
        history: History,
        database: Arc<Database>,
        provider: Arc<Provider>,
    ) -> Arc<Self> {
        let skews = (0..swarm.processes).map(|_| {
            let skew_us = random.within(0..swarm.skew_ms * 1_000 + 1);
            Arc::new(AtomicI64::new(
                i64::try_from(skew_us / 1_000 * 1_000).unwrap_or_default(),
            ))
        });
        let skews = skews.collect();
        Arc::new(Self {
            executor,
            time,
            random,
            history,
            database,
            provider,
            agent: agent(),
            places: usize::try_from(swarm.places).unwrap_or(1),
            entropy: Arc::new(SeededEntropy::new(seed)),
            groups: AtomicU64::new(1),
            lives: Mutex::new(vec![None; usize::try_from(swarm.processes).unwrap_or(1)]),
            skews,
        })
    }

    fn lives(&self) -> MutexGuard<'_, Vec<Option<Life>>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lives().len()
    }

    pub(super) fn agent(&self) -> Arc<AgentVersion> {
        Arc::clone(&self.agent)
    }

    pub(super) fn entropy(&self) -> &SeededEntropy {
        &self.entropy
    }

    /// A process that lives, from that one on.
    pub(super) fn alive(&self, from: usize) -> Option<Life> {
        let lives = self.lives();
        (0..lives.len()).find_map(|step| lives.get((from + step) % lives.len()).cloned().flatten())
    }

    /// Starts a process, which was not there or has died.
    pub(super) fn start(&self, number: usize) {
        let group = self.groups.fetch_add(1, Ordering::Relaxed);
        let client = self.database.client(group);
        let Some(skew_us) = self.skews.get(number).cloned() else {
            return;
        };
        let clock: Arc<dyn Clock> = Arc::new(ProcessClock {
            time: self.time.clone(),
            skew_us,
        });
        let journal: Arc<dyn JournalStore> = client.clone();
        let deps = Deps {
            journal,
            blobs: Arc::new(MemoryBlobs::default()),
            agents: Arc::new(OneAgent(Arc::clone(&self.agent))),
            models: Arc::new(SimModel(Arc::clone(&self.provider))),
            prices: Arc::new(SimPrices),
            preparer: Arc::new(SimPreparer::new(&self.time, &self.random, &self.history)),
            ledger: Arc::new(NoLedger),
            observer: Arc::new(Unobserved),
            clock: Arc::clone(&clock),
            entropy: self.entropy.clone(),
        };
        let options = HostOptions {
            max_concurrent_runs: self.places,
            lease_ms: LEASE_MS,
            sweep_ms: SWEEP_MS,
            dead: DeadOwners::LeaseExpired,
        };
        let host = Host::with_spawner(deps, options, self.executor.spawner(group));
        let (sweeping, renewing) = (Arc::clone(&host), Arc::clone(&host));
        self.executor
            .spawn(group, Box::pin(async move { sweeping.run().await }));
        self.executor
            .spawn(group, Box::pin(async move { renewing.renew_leases().await }));
        self.history
            .note(format_args!("process {number} starts as {group}"));
        let life = Life {
            group,
            host,
            client,
            clock,
        };
        if let Some(place) = self.lives().get_mut(number) {
            *place = Some(life);
        }
    }

    /// Kills a process: what it was doing is not done.
    pub(super) fn kill(&self, number: usize) {
        let life = self.lives().get_mut(number).and_then(Option::take);
        if let Some(life) = life {
            self.history.note(format_args!("process {number} dies"));
            self.executor.kill(life.group);
            self.database.forget(life.group);
        }
    }

    /// The life of a process, if it lives.
    pub(super) fn life(&self, number: usize) -> Option<Life> {
        self.lives().get(number).cloned().flatten()
    }
}

/// One agent for all tenants.
struct OneAgent(Arc<AgentVersion>);

impl AgentStore for OneAgent {
    fn put_agent(
        &self,
        _tenant: TenantId,
        _fresh_id: AgentId,
        _definition: AgentDefinition,
        _at: Timestamp,
    ) -> Fut<'_, Result<AgentVersion, AdminStoreError>> {
        Box::pin(std::future::ready(Err(AdminStoreError("read only".to_owned()))))
    }

    fn agent(
        &self,
        _tenant: TenantId,
        _name: AgentName,
        _version: Option<u32>,
    ) -> Fut<'_, Result<Option<AgentVersion>, AdminStoreError>> {
        Box::pin(std::future::ready(Ok(Some((*self.0).clone()))))
    }

    fn agents(
        &self,
        _tenant: TenantId,
        _after: Option<AgentName>,
        _limit: u32,
    ) -> Fut<'_, Result<Vec<AgentVersion>, AdminStoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn retire_agent(&self, _tenant: TenantId, _name: AgentName) -> Fut<'_, Result<bool, AdminStoreError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}
