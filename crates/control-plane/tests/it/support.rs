//! A world around the API: stores in memory, a scripted model, keys of two tenants.

pub(crate) mod clock;
pub(crate) mod flaky;
pub(crate) mod models;
pub(crate) mod socket;
pub(crate) mod stores;

use axum::{Router, body::Body};
use clock::FakeClock;
use flaky::FlakyJournal;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use models::{FakeModels, FakeWorkspaces};
use portolan_control_plane::{ApiConfig, Deps, HashKey, InlineHost, Secret, router};
use portolan_core::{
    agent::{AgentDefinition, AgentName, AgentStore},
    entropy::Entropy,
    event::{Event, RunSucceeded},
    ids::{OwnerId, RunId, TenantId},
    key::Scope,
    price::{Price, Prices},
    time::Clock,
};
use portolan_engine::{
    DefinitionPreparer, Host, HostAbilities, HostOptions, NoLedger, Unobserved, ambient::OsEntropy,
};
use portolan_journal::{
    Append, Claim, ClaimRequest, DeadOwners, JournalStore, NewEvent, Progress, RunRef, RunStatus,
    blob::{BlobStore, MemoryBlobs},
    memory::MemoryJournal,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};
use stores::{FakeAgents, FakeKeys};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The status and the code of a problem; the code of an answer that is none is empty.
    pub(crate) fn code(&self) -> (u16, String) {
        if self.header("content-type") != Some("application/problem+json") {
            return (self.status.as_u16(), String::new());
        }
        let problem = self.json();
        assert_eq!(
            problem["status"],
            self.status.as_u16(),
            "the body names another status"
        );
        assert_eq!(
            problem["requestId"],
            self.header("x-request-id").expect("a request id")
        );
        let code = problem["code"].as_str().expect("a code").to_owned();
        assert_eq!(problem["type"], format!("https://portolan.dev/errors/{code}"));
        (self.status.as_u16(), code)
    }
}

struct NoPrices;

impl std::fmt::Debug for NoPrices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NoPrices")
    }
}

impl Prices for NoPrices {
    fn price(&self, model: &str) -> Option<Price> {
        let per_million = portolan_core::money::NanoUsd(1_000_000_000);
        (model == "fake/priced").then_some(Price {
            input_usd_per_million: per_million,
            output_usd_per_million: per_million,
            cached_input_usd_per_million: None,
            max_output_tokens: None,
        })
    }
}

/// Everything that a test looks at.
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) journal: Arc<MemoryJournal>,
    pub(crate) flaky: Arc<FlakyJournal>,
    pub(crate) agents: Arc<FakeAgents>,
    pub(crate) keys: Arc<FakeKeys>,
    pub(crate) models: Arc<FakeModels>,
    pub(crate) host: Arc<Host>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) tenant: TenantId,
    pub(crate) other_tenant: TenantId,
    /// Every scope of the first tenant.
    pub(crate) key: String,
    /// Every scope of the second.
    pub(crate) other_key: String,
}

pub(crate) const ALL: [Scope; 4] = [
    Scope::RunsExecute,
    Scope::RunsRead,
    Scope::AgentsWrite,
    Scope::AgentsRead,
];

pub(crate) const HASH_KEY: [u8; 32] = [7; 32];

/// Short intervals, so that what waits for time is quick.
pub(crate) fn config() -> ApiConfig {
    ApiConfig {
        body_timeout_ms: 150,
        heartbeat_ms: 100,
        poll_ms: 50,
        ..ApiConfig::default()
    }
}

impl World {
    /// Nobody drives runs: they stay as the test leaves them.
    pub(crate) async fn idle() -> Self {
        Self::new(0, config()).await
    }

    pub(crate) async fn idle_with(config: ApiConfig) -> Self {
        Self::new(0, config).await
    }

    /// The engine drives runs with the scripted models.
    pub(crate) async fn live() -> Self {
        let world = Self::new(16, config()).await;
        let host = Arc::clone(&world.host);
        tokio::spawn(async move { host.run().await });
        world
    }

    async fn new(places: usize, config: ApiConfig) -> Self {
        let clock = Arc::new(FakeClock::default());
        let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
        let journal = Arc::new(MemoryJournal::default());
        let flaky = Arc::new(FlakyJournal::new(Arc::clone(&journal)));
        let blobs = Arc::new(MemoryBlobs::default());
        let (agents, keys) = (Arc::new(FakeAgents::default()), Arc::new(FakeKeys::default()));
        let models = Arc::new(FakeModels::default());
        let shutdown = CancellationToken::new();
        let deps = portolan_engine::Deps {
            journal: Arc::clone(&journal) as Arc<dyn JournalStore>,
            blobs: Arc::clone(&blobs) as Arc<dyn BlobStore>,
            agents: Arc::clone(&agents) as Arc<dyn AgentStore>,
            models: Arc::clone(&models) as _,
            prices: Arc::new(NoPrices),
            preparer: Arc::new(DefinitionPreparer::new(Arc::new(FakeWorkspaces))),
            ledger: Arc::new(NoLedger),
            observer: Arc::new(Unobserved),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: Arc::clone(&entropy),
        };
        let options = HostOptions {
            max_concurrent_runs: places,
            ..HostOptions::default()
        };
        let host = Host::new(deps, options);
        let router = router(Deps {
            journal: Arc::clone(&flaky) as _,
            blobs: Arc::clone(&blobs) as _,
            agents: Arc::clone(&agents) as _,
            keys: Arc::clone(&keys) as _,
            host: Arc::new(InlineHost::new(Arc::clone(&host), HostAbilities::default())),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: Arc::clone(&entropy),
            hash_key: HashKey::new(HASH_KEY),
            shutdown: shutdown.clone(),
            config,
        });
        let at = clock.now();
        let mut world = Self {
            router,
            journal,
            flaky,
            agents,
            keys,
            models,
            host,
            shutdown,
            tenant: entropy.tenant_id(at),
            other_tenant: entropy.tenant_id(at),
            clock,
            key: String::new(),
            other_key: String::new(),
        };
        world.key = world.make_key(world.tenant, ALL);
        world.other_key = world.make_key(world.other_tenant, ALL);
        world.agent("echo", json!({"model": "fake/echo"})).await;
        world
    }

    /// A new key.
    pub(crate) fn make_key(&self, tenant: TenantId, scopes: impl Into<BTreeSet<Scope>>) -> String {
        let secret = Secret::draw(&OsEntropy);
        let hash = secret.hash(&HashKey::new(HASH_KEY));
        self.keys.insert(tenant, scopes.into(), hash, self.clock.now());
        secret.reveal().to_owned()
    }

    /// A new version of an agent of the first tenant, past the API.
    pub(crate) async fn agent(&self, name: &str, members: Value) {
        let mut definition = json!({"name": name, "resultSchema": {}});
        let target = definition.as_object_mut().expect("an object");
        target.extend(members.as_object().expect("an object").clone());
        let definition: AgentDefinition = serde_json::from_value(definition).expect("a definition");
        let at = self.clock.now();
        let entropy: &dyn Entropy = &OsEntropy;
        self.agents
            .put_agent(self.tenant, entropy.agent_id(at), definition, at)
            .await
            .expect("the fake store works");
    }

    /// A request of the first tenant.
    pub(crate) fn request(&self, method: &str, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header("host", "portolan.test")
            .header("authorization", format!("Bearer {}", self.key))
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("never fails");
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.expect("a body").to_bytes().to_vec(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path).body(Body::empty()).expect("a request"))
            .await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        let request = self
            .request("POST", path)
            .header("content-type", "application/json")
            .body(body.into());
        self.send(request.expect("a request")).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        let request = self
            .request("PUT", path)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        self.send(request.expect("a request")).await
    }

    /// A run of `echo`, queued.
    pub(crate) async fn queued(&self) -> RunRef {
        let answer = self
            .post(
                "/v1/runs",
                json!({"agentName": "echo", "input": "hi"}).to_string(),
            )
            .await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        self.run_ref(&answer)
    }

    pub(crate) fn run_ref(&self, answer: &Answer) -> RunRef {
        let id: RunId = serde_json::from_value(answer.json()["run"]["id"].clone()).expect("a run id");
        RunRef {
            tenant: self.tenant,
            run: id,
        }
    }

    /// How many runs a tenant has.
    pub(crate) async fn runs_of(&self, tenant: TenantId) -> usize {
        let runs = self
            .journal
            .list(tenant, portolan_journal::RunFilter::default(), 1_000)
            .await;
        runs.expect("memory works").len()
    }

    /// Writes to a run as its owner, whoever owns it now.
    pub(crate) async fn append(&self, run: RunRef, events: Vec<NewEvent>, status: RunStatus) {
        let row = self.journal.run(run).await.expect("memory works").expect("a run");
        if row.owner.is_none() {
            let request = ClaimRequest {
                claim: Claim {
                    owner: OwnerId::from_bytes([9; 16]),
                    lease_until: self.clock.now().plus_ms(60_000),
                },
                now: self.clock.now(),
                max: 1_000,
                dead: DeadOwners::LeaseExpired,
            };
            self.journal.claim(request).await.expect("memory works");
        }
        let row = self.journal.run(run).await.expect("memory works").expect("a run");
        let progress = Progress {
            status,
            finished_at: status.is_terminal().then(|| self.clock.now()),
            ..row.progress
        };
        let append = Append {
            run,
            epoch: row.epoch,
            after: None,
            at: self.clock.now(),
            active_ms: 0,
            events,
            progress,
            advances: true,
            settle: None,
            top_up: None,
            consumed: Vec::new(),
            release: None,
        };
        self.journal.append(append).await.expect("memory works");
    }

    /// Ends a run with a value.
    pub(crate) async fn succeed(&self, run: RunRef) {
        let event = Event::RunSucceeded(RunSucceeded {
            output: serde_json::value::to_raw_value(&"done").expect("a string"),
            artifacts_unknown: None,
        });
        self.append(run, vec![encoded(&event)], RunStatus::Succeeded)
            .await;
    }
}

pub(crate) fn encoded(event: &Event) -> NewEvent {
    NewEvent::encode(event, None).expect("encodes")
}

/// An event of a kind that no build knows.
pub(crate) fn note(text: &str) -> NewEvent {
    NewEvent {
        kind: "note".into(),
        step: None,
        attempt: None,
        payload: json!({ "text": text }).to_string().into(),
    }
}

pub(crate) fn name(text: &str) -> AgentName {
    text.parse().expect("a name")
}
