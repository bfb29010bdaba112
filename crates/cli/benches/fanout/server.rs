//! The server: the real store and API, and a writer that commits one event a second for every run.

use crate::{Failure, RUNS, crowd::monotonic};
use portolan_control_plane::{
    ApiConfig, Deps as ApiDeps, HashKey, InlineHost, ServeLimits, bootstrap, serve::serve as serve_http,
};
use portolan_core::{
    entropy::Entropy,
    ids::{Epoch, OwnerId, TenantId},
    money::NanoUsd,
    time::Clock,
    workspace::{Workspace, WorkspaceError},
};
use portolan_engine::{
    DefinitionPreparer, Deps, Host, HostAbilities, HostOptions, ModelSource, NoLedger, UnknownModel,
    Unobserved, WorkspaceHost,
    ambient::{OsEntropy, SystemClock},
};
use portolan_journal::{
    Admission, Append, Appended, Claim, JournalStore as _, NewEvent, Progress, RunRef, RunStatus,
};
use portolan_router::PriceTable;
use portolan_store::{FileBlobs, SqliteStore};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

/// Serves until stdin ends; a line on it says for how many seconds events are committed.
pub(crate) async fn serve(directory: &Path) -> Result<(), Failure> {
    crate::raise_descriptor_limit();
    let store = Arc::new(SqliteStore::open(directory)?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
    let hash_key = HashKey::new([7; 32]);
    let key = bootstrap::admin_key(&*store, &hash_key, &*entropy, clock.now())
        .await?
        .ok_or("an old folder")?;
    let shutdown = CancellationToken::new();
    let router = portolan_control_plane::router(deps(directory, &store, &clock, hash_key, &shutdown)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{} {}", listener.local_addr()?, key.reveal());
    let secret = key.hash(&HashKey::new([7; 32]));
    let tenant = portolan_core::key::KeyStore::key_by_hash(&*store, secret)
        .await?
        .ok_or("a key")?
        .tenant;
    let runs = admit(&store, &*entropy, &*clock, tenant).await?;
    let limits = ServeLimits::default();
    let api = tokio::spawn(serve_http(
        listener,
        router,
        limits,
        Arc::clone(&clock),
        shutdown.clone(),
    ));
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    if let Some(seconds) = orders.next_line().await? {
        commit(&store, &*clock, &runs, seconds.parse()?).await?;
    }
    while orders.next_line().await?.is_some() {}
    shutdown.cancel();
    api.await?;
    store.close().await;
    Ok(())
}

async fn admit(
    store: &SqliteStore,
    entropy: &dyn Entropy,
    clock: &dyn Clock,
    tenant: TenantId,
) -> Result<Vec<RunRef>, Failure> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let at = clock.now();
        let run = RunRef {
            tenant,
            run: entropy.run_id(at),
        };
        store
            .admit(Admission {
                run,
                agent: "bench".parse()?,
                agent_version: 1,
                tags: Vec::new(),
                queued: event("run_queued", b"{}"),
                reserve: NanoUsd::ZERO,
                idempotency: None,
                claim: Some(Claim {
                    owner: OwnerId::from_bytes([1; 16]),
                    lease_until: at.plus_ms(3_600_000),
                }),
                at,
            })
            .await?;
        println!("{}", run.run);
        runs.push(run);
    }
    Ok(runs)
}

/// Commits an event a second for each run, spread over the second, then ends the runs and prints when what was durable.
async fn commit(
    store: &SqliteStore,
    clock: &dyn Clock,
    runs: &[RunRef],
    seconds: u64,
) -> Result<(), Failure> {
    let mut commits = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(runs.len())?);
    let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(500));
    for _ in 0..seconds {
        for run in runs {
            ticks.tick().await;
            let seq = append(store, clock, *run, event("note", payload.as_bytes())).await?;
            commits.push((run.run, seq, monotonic().as_micros()));
        }
    }
    for run in runs {
        append(store, clock, *run, event("run_succeeded", b"{\"output\":1}")).await?;
    }
    for (run, seq, at) in commits {
        println!("{run} {seq} {at}");
    }
    println!("done");
    Ok(())
}

async fn append(
    store: &SqliteStore,
    clock: &dyn Clock,
    run: RunRef,
    event: NewEvent,
) -> Result<u64, Failure> {
    let status = match event.kind.as_ref() {
        "run_succeeded" => RunStatus::Succeeded,
        _ => RunStatus::Running,
    };
    let at = clock.now();
    let append = Append {
        run,
        epoch: Epoch(1),
        after: None,
        at,
        active_ms: 0,
        events: vec![event],
        progress: Progress {
            status,
            finished_at: status.is_terminal().then_some(at),
            ..Progress::default()
        },
        advances: true,
        settle: None,
        top_up: None,
        consumed: Vec::new(),
        release: None,
    };
    match store.append(append).await? {
        Appended::Committed { last_seq, .. } => Ok(last_seq.0),
        other => Err(format!("not committed: {other:?}").into()),
    }
}

fn event(kind: &'static str, payload: &[u8]) -> NewEvent {
    NewEvent {
        kind: kind.into(),
        step: None,
        attempt: None,
        payload: payload.to_vec().into(),
    }
}

/// What the API stands on. The engine is there and drives nothing.
fn deps(
    directory: &Path,
    store: &Arc<SqliteStore>,
    clock: &Arc<dyn Clock>,
    hash_key: HashKey,
    shutdown: &CancellationToken,
) -> Result<ApiDeps, Failure> {
    let blobs = Arc::new(FileBlobs::open(directory)?);
    let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
    let engine = Deps {
        journal: store.clone(),
        blobs: blobs.clone(),
        agents: store.clone(),
        models: Arc::new(Nothing),
        prices: Arc::new(PriceTable::empty()),
        preparer: Arc::new(DefinitionPreparer::new(Arc::new(Nothing))),
        ledger: Arc::new(NoLedger),
        observer: Arc::new(Unobserved),
        clock: Arc::clone(clock),
        entropy: Arc::clone(&entropy),
    };
    let host = Host::new(engine, HostOptions::default());
    Ok(ApiDeps {
        journal: store.clone(),
        blobs,
        agents: store.clone(),
        keys: store.clone(),
        host: Arc::new(InlineHost::new(host, HostAbilities::default())),
        clock: Arc::clone(clock),
        entropy,
        hash_key,
        shutdown: shutdown.clone(),
        config: ApiConfig::default(),
    })
}

/// No models and no workspaces.
struct Nothing;

impl ModelSource for Nothing {
    fn model(&self, name: &str) -> Result<Arc<dyn portolan_core::model::Model>, UnknownModel> {
        Err(UnknownModel(name.to_owned()))
    }
}

impl WorkspaceHost for Nothing {
    fn open(
        &self,
        _run: RunRef,
        _source: &portolan_core::agent::WorkspaceSource,
    ) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        Err(WorkspaceError::Failed("there are no workspaces here".to_owned()))
    }

    fn discard(&self, _run: RunRef) {}
}
