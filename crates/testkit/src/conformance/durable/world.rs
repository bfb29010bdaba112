//! Everything that the engine needs to run one scenario.

use super::{
    prepare::StagePreparer,
    steering::{FakeProvider, HarnessLedger, Steering},
};
use crate::{
    conformance::{
        scenario::WorkspaceKind,
        stage::{Stage, locked},
    },
    entropy::SeededEntropy,
    kill::{KillSwitch, KillingBlobs, KillingClock, KillingJournal},
};
use futures::FutureExt;
use portolan_core::{
    Fut,
    agent::{AgentDefinition, AgentName, AgentStore, AgentVersion},
    event::{Event, RunQueued},
    ids::{AgentId, RunId, TenantId},
    key::AdminStoreError,
    model::Model,
    money::NanoUsd,
    price::{Price, Prices},
    time::Timestamp,
    trace::Boundary,
};
use portolan_engine::{Deps, ModelSource, Observer, UnknownModel};
use portolan_journal::{
    Admission, Admitted, Command, JournalError, JournalStore, NewEvent, RunRef, blob::MemoryBlobs,
    memory::MemoryJournal,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

/// The one run of a world.
pub(super) const RUN: RunRef = RunRef {
    tenant: TenantId::from_bytes([1; 16]),
    run: RunId::from_bytes([2; 16]),
};

/// A server for one scenario, without HTTP.
pub(super) struct World {
    /// The journal that survives.
    pub(super) journal: Arc<dyn JournalStore>,
    pub(super) preparer: Arc<StagePreparer>,
    pub(super) steering: Arc<Steering>,
    pub(super) deps: Deps,
}

impl World {
    pub(super) fn new(stage: &Stage, switch: &KillSwitch) -> Self {
        let journal: Arc<dyn JournalStore> = Arc::new(MemoryJournal::new());
        let outlives = stage.scenario.workspace.kind == WorkspaceKind::Directory;
        let steering = Steering::new(
            Arc::clone(&journal),
            switch.clone(),
            stage.cancel.clone(),
            outlives,
        );
        let preparer = Arc::new(StagePreparer::new(stage, Arc::clone(&steering)));
        let provider = FakeProvider {
            script: stage.model(),
            steering: Arc::clone(&steering),
        };
        let deps = Deps {
            journal: Arc::new(KillingJournal::new(Arc::clone(&journal), switch.clone())),
            blobs: Arc::new(KillingBlobs::new(
                Arc::new(MemoryBlobs::default()),
                switch.clone(),
            )),
            agents: Arc::new(OneAgent),
            models: Arc::new(OneModel(Arc::new(provider))),
            prices: Arc::new(NoPrices),
            preparer: preparer.clone(),
            ledger: Arc::new(HarnessLedger(Arc::clone(&steering))),
            observer: Arc::new(Hooks {
                stage: stage.share(),
                steering: Arc::clone(&steering),
                ordinals: Mutex::default(),
            }),
            clock: Arc::new(KillingClock::new(stage.clock.clone(), switch.clone())),
            entropy: Arc::new(SeededEntropy::new(1)),
        };
        Self {
            journal,
            preparer,
            steering,
            deps,
        }
    }

    pub(super) async fn admit(&self, stage: &Stage) -> Result<(), JournalError> {
        let queued = RunQueued {
            agent_name: agent().definition.name,
            agent_version: 1,
            input: json!(null),
            files: BTreeMap::new(),
            limits: Default::default(),
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            parent_run_id: None,
        };
        let event = NewEvent::encode(&Event::RunQueued(Box::new(queued.clone())), None)
            .map_err(|error| JournalError::NotCommitted(error.to_string()))?;
        let admission = Admission {
            run: RUN,
            agent: queued.agent_name,
            agent_version: 1,
            tags: Vec::new(),
            queued: event,
            reserve: NanoUsd::ZERO,
            idempotency: None,
            claim: None,
            at: self.deps.clock.now(),
        };
        match self.journal.admit(admission).await? {
            Admitted::Created { .. } => {}
            other => return Err(JournalError::NotCommitted(format!("{other:?}"))),
        }
        if stage.scenario.cancel_before_start {
            self.journal
                .command(RUN, Command::Cancel, self.deps.clock.now())
                .await?;
        }
        Ok(())
    }
}

fn agent() -> AgentVersion {
    AgentVersion {
        id: AgentId::from_bytes([3; 16]),
        version: 1,
        definition: AgentDefinition {
            name: "scenario".parse().expect("a plain name"),
            description: None,
            model: None,
            capability: None,
            task: None,
            instructions: Vec::new(),
            tools: Vec::new(),
            resources: BTreeMap::new(),
            approval: None,
            workspace: None,
            runtime: None,
            limits: Default::default(),
            retries: Default::default(),
            input_schema: None,
            result_schema: json!(true),
        },
        created_at: Timestamp(0),
        retired: false,
    }
}

struct OneAgent;

impl AgentStore for OneAgent {
    fn put_agent(
        &self,
        _tenant: TenantId,
        _fresh_id: AgentId,
        _definition: AgentDefinition,
        _at: Timestamp,
    ) -> Fut<'_, Result<AgentVersion, AdminStoreError>> {
        Box::pin(std::future::ready(Ok(agent())))
    }

    fn agent(
        &self,
        _tenant: TenantId,
        _name: AgentName,
        _version: Option<u32>,
    ) -> Fut<'_, Result<Option<AgentVersion>, AdminStoreError>> {
        Box::pin(std::future::ready(Ok(Some(agent()))))
    }

    fn agents(
        &self,
        _tenant: TenantId,
        _after: Option<AgentName>,
        _limit: u32,
    ) -> Fut<'_, Result<Vec<AgentVersion>, AdminStoreError>> {
        Box::pin(std::future::ready(Ok(vec![agent()])))
    }

    fn retire_agent(&self, _tenant: TenantId, _name: AgentName) -> Fut<'_, Result<bool, AdminStoreError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

struct OneModel(Arc<FakeProvider>);

impl ModelSource for OneModel {
    fn model(&self, _name: &str) -> Result<Arc<dyn Model>, UnknownModel> {
        Ok(self.0.clone())
    }
}

#[derive(Debug)]
struct NoPrices;

impl Prices for NoPrices {
    fn price(&self, _model: &str) -> Option<Price> {
        None
    }
}

/// Lets happen what a scenario wants to happen at its boundaries. A boundary that a later life judges again counts once.
struct Hooks {
    stage: Stage,
    steering: Arc<Steering>,
    ordinals: Mutex<HashMap<Boundary, BTreeSet<u64>>>,
}

impl Observer for Hooks {
    fn before_check(&self, _run: RunRef, boundary: Boundary, ordinal: u64) {
        let occurrence = {
            let mut ordinals = locked(&self.ordinals);
            let seen = ordinals.entry(boundary).or_default();
            seen.insert(ordinal);
            seen.range(..=ordinal).count() as u64
        };
        self.stage.at_occurrence(boundary, occurrence);
        // The journal in memory answers at once.
        let relayed = self.steering.relay_cancel().now_or_never();
        debug_assert!(relayed.is_some(), "the journal in memory answers at once");
    }
}
