//! A server without HTTP: one tenant, one agent, one provider with a ledger.

use portolan_agent::workspace::{MemoryWorkspace, Policy};
use portolan_core::{
    Fut,
    agent::{AgentDefinition, AgentName, AgentStore, AgentVersion, WorkspaceSource},
    call::{Action, Arguments, FinalResult, ToolCall},
    event::{Event, Recorded, RunQueued},
    failure::RunFailure,
    ids::{AgentId, Epoch, IdempotencyKey, OwnerId, RunId, Seq, TenantId},
    key::AdminStoreError,
    model::{Model, ModelError, ModelFailure, ModelReply, ModelRequest},
    money::NanoUsd,
    price::{Price, Prices},
    time::{Clock, Timestamp},
    tool::{Tool, ToolError, ToolInvocation, ToolSpec},
    usage::TokenUsage,
    workspace::{Workspace, WorkspaceError},
};
use portolan_engine::{
    Configuration, DefinitionPreparer, Deps, DriveEnd, Equipment, Launch, ModelSource, NoLedger, Preparer,
    ToolLedger, UnknownModel, Unobserved, WorkspaceHost, drive, drive::StopSwitch, ports::Seed,
};
use portolan_journal::{
    Admission, Claim, ClaimRequest, DeadOwners, JournalStore, NewEvent, RunRef, RunRow, blob::MemoryBlobs,
    memory::MemoryJournal,
};
use portolan_testkit::{clock::VirtualClock, entropy::SeededEntropy};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

pub(crate) const RUN: RunRef = RunRef {
    tenant: TenantId::from_bytes([7; 16]),
    run: RunId::from_bytes([9; 16]),
};

/// What the provider does with one send.
#[derive(Debug, Clone)]
pub(crate) enum Script {
    Call(&'static str, Value),
    Final(Value),
    Fail(ModelFailure, Option<u64>),
    /// Charges, and never answers.
    Hang,
}

/// A provider that follows a script, send by send, and remembers every send.
#[derive(Debug, Default)]
pub(crate) struct FakeProvider {
    script: Mutex<Vec<Script>>,
    pub(crate) sends: Mutex<Vec<(String, usize)>>,
    pub(crate) hung: AtomicUsize,
    pub(crate) honours_keys: bool,
    usage: Option<TokenUsage>,
}

impl Model for FakeProvider {
    fn call<'a>(
        &'a self,
        key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let place = {
                let mut sends = self.sends.lock().unwrap_or_else(PoisonError::into_inner);
                sends.push((
                    key.map(ToString::to_string).unwrap_or_default(),
                    request.exchanges().count(),
                ));
                sends.len() - 1
            };
            let step = self
                .script
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(place)
                .cloned();
            let action = match step.unwrap_or(Script::Final(json!("done"))) {
                Script::Call(name, arguments) => Action::Call(ToolCall {
                    id: format!("c{place}"),
                    name: name.to_owned(),
                    arguments: Arguments::Json(arguments),
                }),
                Script::Final(value) => Action::Final(FinalResult {
                    id: None,
                    value: Arguments::Json(value),
                }),
                Script::Fail(failure, retry_after_ms) => {
                    return Err(ModelError {
                        failure,
                        message: "scripted".to_owned(),
                        retry_after_ms,
                    });
                }
                Script::Hang => {
                    self.hung.fetch_add(1, Ordering::SeqCst);
                    std::future::pending().await
                }
            };
            Ok(ModelReply {
                usage: self.usage,
                ..ModelReply::new(action)
            })
        })
    }

    fn honours_idempotency_keys(&self) -> bool {
        self.honours_keys
    }
}

struct FakeModels(Arc<FakeProvider>);

impl ModelSource for FakeModels {
    fn model(&self, name: &str) -> Result<Arc<dyn Model>, UnknownModel> {
        if name == "fake/model" {
            Ok(self.0.clone())
        } else {
            Err(UnknownModel(format!("no model {name}")))
        }
    }
}

#[derive(Debug)]
struct FakePrices(Option<Price>);

impl Prices for FakePrices {
    fn price(&self, _model: &str) -> Option<Price> {
        self.0
    }
}

struct FakeAgents(Mutex<AgentVersion>);

impl AgentStore for FakeAgents {
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
        let agent = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(std::future::ready(Ok(Some(agent))))
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

/// Workspaces in memory: gone with each owner, as with a host that died.
struct MemoryHost;

impl WorkspaceHost for MemoryHost {
    fn open(&self, _run: RunRef, source: &WorkspaceSource) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        let allow = source.allow.clone().unwrap_or_default();
        let failed = |error: &dyn std::fmt::Display| WorkspaceError::Failed(error.to_string());
        let policy = Policy::new(allow, &source.deny_globs).map_err(|error| failed(&error))?;
        let empty: Vec<(String, Vec<u8>)> = Vec::new();
        MemoryWorkspace::new(empty, policy)
            .map(|w| Arc::new(w) as Arc<dyn Workspace>)
            .map_err(|error| failed(&error))
    }

    fn discard(&self, _run: RunRef) {}
}

/// A tool that begins and never ends, unless it is told to.
#[derive(Debug, Default)]
pub(crate) struct HangingTool(pub(crate) AtomicUsize, pub(crate) AtomicUsize);

impl Tool for HangingTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "hang".to_owned(),
            description: "Hangs.".to_owned(),
            input_schema: json!({"type": "object"}),
        }
    }

    fn call<'a>(&'a self, invocation: ToolInvocation<'a>) -> Fut<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            self.0.fetch_add(1, Ordering::SeqCst);
            invocation.cancel.cancelled().await;
            tokio::task::yield_now().await;
            self.1.fetch_add(1, Ordering::SeqCst);
            Err(ToolError::Failed("it was told to stop".to_owned()))
        })
    }
}

/// The real preparer, with one more tool.
struct WithHangingTool {
    inner: DefinitionPreparer,
    tool: Arc<HangingTool>,
}

impl Preparer for WithHangingTool {
    fn configure(
        &self,
        run: RunRef,
        agent: &AgentVersion,
        queued: &RunQueued,
        tools: &[Arc<dyn Tool>],
    ) -> Result<Configuration, RunFailure> {
        self.inner.configure(run, agent, queued, tools)
    }

    fn equip(&self, run: RunRef, agent: &AgentVersion, queued: &RunQueued) -> Result<Equipment, RunFailure> {
        let mut equipment = self.inner.equip(run, agent, queued)?;
        equipment.tools.push(self.tool.clone());
        Ok(equipment)
    }

    fn seed(&self, agent: &AgentVersion, queued: &RunQueued) -> Result<Option<Seed>, RunFailure> {
        self.inner.seed(agent, queued)
    }

    fn discard(&self, run: RunRef) {
        self.inner.discard(run);
    }
}

pub(crate) struct World {
    pub(crate) journal: Arc<MemoryJournal>,
    pub(crate) clock: VirtualClock,
    pub(crate) provider: Arc<FakeProvider>,
    pub(crate) deps: Deps,
    pub(crate) stop: StopSwitch,
    pub(crate) hanging_tool: Arc<HangingTool>,
    queued: RunQueued,
}

pub(crate) struct Setup {
    pub(crate) definition: Value,
    pub(crate) script: Vec<Script>,
    pub(crate) honours_keys: bool,
    pub(crate) price: Option<Price>,
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) ledger: Arc<dyn ToolLedger>,
}

impl Setup {
    pub(crate) fn new(script: Vec<Script>) -> Self {
        Self {
            definition: json!({}),
            script,
            honours_keys: true,
            price: None,
            usage: None,
            ledger: Arc::new(NoLedger),
        }
    }

    /// Adds members to the definition.
    pub(crate) fn with(mut self, members: Value) -> Self {
        if let (Value::Object(all), Value::Object(more)) = (&mut self.definition, members) {
            all.extend(more);
        }
        self
    }

    pub(crate) async fn admitted(self) -> World {
        let mut definition = json!({
            "name": "fixer", "model": "fake/model", "task": "Do it.", "resultSchema": {"type": "string"},
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut definition, self.definition) {
            all.extend(more);
        }
        let definition: AgentDefinition = serde_json::from_value(definition).expect("a definition");
        let agent = AgentVersion {
            id: AgentId::from_bytes([3; 16]),
            version: 1,
            definition,
            created_at: Timestamp(0),
            retired: false,
        };
        let queued = RunQueued {
            agent_name: agent.definition.name.clone(),
            agent_version: 1,
            input: json!({"question": 1}),
            files: BTreeMap::new(),
            limits: Default::default(),
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            parent_run_id: None,
        };
        let provider = Arc::new(FakeProvider {
            script: Mutex::new(self.script),
            honours_keys: self.honours_keys,
            usage: self.usage,
            ..FakeProvider::default()
        });
        let journal = Arc::new(MemoryJournal::new());
        let clock = VirtualClock::new();
        let hanging_tool = Arc::new(HangingTool::default());
        let deps = Deps {
            journal: journal.clone(),
            blobs: Arc::new(MemoryBlobs::default()),
            agents: Arc::new(FakeAgents(Mutex::new(agent.clone()))),
            models: Arc::new(FakeModels(provider.clone())),
            prices: Arc::new(FakePrices(self.price)),
            preparer: Arc::new(WithHangingTool {
                inner: DefinitionPreparer::new(Arc::new(MemoryHost)),
                tool: hanging_tool.clone(),
            }),
            ledger: self.ledger,
            observer: Arc::new(Unobserved),
            clock: Arc::new(clock.clone()),
            entropy: Arc::new(SeededEntropy::new(1)),
        };
        let world = World {
            journal,
            clock,
            provider,
            deps,
            stop: StopSwitch::default(),
            hanging_tool,
            queued,
        };
        world.admit().await;
        world
    }
}

impl World {
    async fn admit(&self) {
        let event = Event::RunQueued(Box::new(self.queued.clone()));
        let admission = Admission {
            run: RUN,
            agent: self.queued.agent_name.clone(),
            agent_version: 1,
            tags: Vec::new(),
            queued: NewEvent::encode(&event, None).expect("encodes"),
            reserve: NanoUsd::ZERO,
            idempotency: None,
            claim: None,
            at: self.clock.now(),
        };
        self.journal.admit(admission).await.expect("admits");
    }

    /// A new owner claims the run, as after a crash.
    pub(crate) async fn claim(&self, owner: u8) -> Option<Launch> {
        let owner = OwnerId::from_bytes([owner; 16]);
        let request = ClaimRequest {
            claim: Claim {
                owner,
                lease_until: self.clock.now().plus_ms(15_000),
            },
            now: self.clock.now(),
            max: 1,
            dead: DeadOwners::AllOthers,
        };
        let claimed = self.journal.claim(request).await.expect("claims").pop()?;
        Some(Launch {
            run: claimed.run,
            epoch: claimed.epoch,
            redrives: claimed.redrives,
            lease: portolan_engine::Lease::forever(),
            fresh: None,
        })
    }

    /// Claims and drives until the drive ends.
    pub(crate) async fn drive(&self, owner: u8) -> DriveEnd {
        let launch = self.claim(owner).await.expect("a run to claim");
        drive(&self.deps, launch, &self.stop, |_| {}).await
    }

    /// Claims and drives until the provider or a tool hangs, then dies.
    pub(crate) async fn drive_and_die(&self, owner: u8) {
        let launch = self.claim(owner).await.expect("a run to claim");
        let hung = || self.provider.hung.load(Ordering::SeqCst) + self.hanging_tool.0.load(Ordering::SeqCst);
        let before = hung();
        let driving = drive(&self.deps, launch, &self.stop, |_| {});
        let mut driving = std::pin::pin!(driving);
        while hung() == before {
            if let std::task::Poll::Ready(end) = futures::poll!(&mut driving) {
                panic!("the drive ended instead of hanging: {end:?}");
            }
            tokio::task::yield_now().await;
        }
    }

    /// Claims and drives until the run ends, or the provider hangs; then dies.
    pub(crate) async fn drive_and_die_or_end(&self, owner: u8) {
        let launch = self.claim(owner).await.expect("a run to claim");
        let before = self.provider.hung.load(Ordering::SeqCst);
        let driving = drive(&self.deps, launch, &self.stop, |_| {});
        let mut driving = std::pin::pin!(driving);
        while self.provider.hung.load(Ordering::SeqCst) == before {
            if futures::poll!(&mut driving).is_ready() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Now.
    pub(crate) fn clock_now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Drives while moving time on whenever everything waits.
    pub(crate) async fn drive_through_time(&self, owner: u8) -> DriveEnd {
        let launch = self.claim(owner).await.expect("a run to claim");
        let driving = drive(&self.deps, launch, &self.stop, |_| {});
        let mut driving = std::pin::pin!(driving);
        loop {
            for _ in 0..50 {
                if let std::task::Poll::Ready(end) = futures::poll!(&mut driving) {
                    return end;
                }
                tokio::task::yield_now().await;
            }
            assert!(
                self.clock.advance_to_next_sleeper(),
                "everything waits and no timer is set"
            );
        }
    }

    pub(crate) async fn row(&self) -> RunRow {
        self.journal.run(RUN).await.expect("reads").expect("the run")
    }

    pub(crate) async fn records(&self) -> Vec<Recorded> {
        self.journal.read(RUN, Seq::ZERO, 10_000).await.expect("reads")
    }

    pub(crate) async fn kinds(&self) -> Vec<String> {
        self.records()
            .await
            .into_iter()
            .map(|record| record.kind)
            .collect()
    }

    pub(crate) async fn last(&self) -> Event {
        self.records()
            .await
            .last()
            .expect("events")
            .event()
            .expect("decodes")
    }

    pub(crate) fn sends(&self) -> Vec<(String, usize)> {
        self.provider
            .sends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.sends()
            .into_iter()
            .map(|(key, _)| key.replace(&RUN.run.to_string(), "RUN"))
            .collect()
    }

    pub(crate) async fn failure(&self) -> portolan_core::failure::RunFailure {
        match self.last().await {
            Event::RunFailed(ended) | Event::RunCancelled(ended) => ended.error,
            other => panic!("the run did not fail: {other:?}"),
        }
    }
}

/// The epoch of a launch, for tests that fence.
pub(crate) const fn next_epoch(launch: &Launch) -> Epoch {
    Epoch(launch.epoch.0 + 1)
}
