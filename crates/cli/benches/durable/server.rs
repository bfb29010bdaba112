//! The server under load: the real store, engine and API, with a model that answers at once.

use crate::{Failure, connection::Connection};
use portolan_control_plane::{
    ApiConfig, Deps as ApiDeps, HashKey, InlineHost, ServeLimits, bootstrap, serve::serve as serve_http,
};
use portolan_core::{
    Fut,
    call::{Action, Arguments, FinalResult, ToolCall},
    entropy::Entropy,
    ids::IdempotencyKey,
    model::{Model, ModelError, ModelReply, ModelRequest},
    time::Clock,
    usage::TokenUsage,
    workspace::{Workspace, WorkspaceError},
};
use portolan_engine::{
    DefinitionPreparer, Deps, Host, HostAbilities, HostOptions, ModelSource, NoLedger, UnknownModel,
    Unobserved, WorkspaceHost,
    ambient::{OsEntropy, SystemClock},
};
use portolan_journal::{DeadOwners, RunRef};
use portolan_router::PriceTable;
use portolan_store::{FileBlobs, SqliteStore};
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

/// A server in a process of its own.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    directory: PathBuf,
    pub(crate) url: String,
    pub(crate) key: String,
}

impl Server {
    pub(crate) async fn start(directory: &Path) -> Result<Self, Failure> {
        let mut process = Command::new(env::current_exe()?)
            .arg("--server")
            .arg(directory)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(process.stdout.take().ok_or("no output")?).lines();
        let ready = lines.next_line().await?.ok_or("the server did not start")?;
        let (url, key) = ready.split_once(' ').ok_or("the server said something else")?;
        let server = Self {
            process,
            directory: directory.to_owned(),
            url: url.to_owned(),
            key: key.to_owned(),
        };
        server.put_agent().await?;
        Ok(server)
    }

    async fn put_agent(&self) -> Result<(), Failure> {
        let definition = json!({
            "name": "bench", "model": "zero/delay",
            "resources": {"docs": {"files": {"a.txt": "r".repeat(1_000)}}},
            "resultSchema": {"type": "string"},
        });
        let mut connection = Connection::open(&self.url, &self.key).await?;
        let answer = connection
            .put("/v1/agents/bench", &definition.to_string())
            .await?;
        match answer.status {
            200 | 201 => Ok(()),
            _ => answer.json(201).map(drop),
        }
    }

    /// Resident memory of the server now.
    pub(crate) fn resident_kib(&self) -> Result<u64, Failure> {
        let id = self.process.id().ok_or("the server has ended")?;
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Ends the server, so that its log is folded into the database, and measures that.
    pub(crate) async fn stop_and_measure_disk(mut self) -> Result<u64, Failure> {
        let id = self.process.id().ok_or("the server has ended")?;
        Command::new("kill")
            .arg("-TERM")
            .arg(id.to_string())
            .status()
            .await?;
        self.process.wait().await?;
        if let Some(keep) = env::var_os("PORTOLAN_BENCH_KEEP") {
            fs::copy(self.directory.join("portolan.db"), keep)?;
        }
        Ok(fs::metadata(self.directory.join("portolan.db"))?.len())
    }
}

/// The server's own process.
pub(crate) fn serve(directory: &Path) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let store = Arc::new(SqliteStore::open(directory)?);
        let blobs = Arc::new(FileBlobs::open(directory)?);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
        let deps = Deps {
            journal: store.clone(),
            blobs: blobs.clone(),
            agents: store.clone(),
            models: Arc::new(ZeroDelay),
            prices: Arc::new(PriceTable::empty()),
            preparer: Arc::new(DefinitionPreparer::new(Arc::new(NoWorkspaces))),
            ledger: Arc::new(NoLedger),
            observer: Arc::new(Unobserved),
            clock: Arc::clone(&clock),
            entropy: Arc::clone(&entropy),
        };
        let options = HostOptions {
            dead: DeadOwners::AllOthers,
            ..HostOptions::default()
        };
        let host = Host::new(deps, options);
        let hash_key = HashKey::new([7; 32]);
        let key = bootstrap::admin_key(&*store, &hash_key, &*entropy, clock.now())
            .await?
            .ok_or("an old folder")?;
        let shutdown = CancellationToken::new();
        let router = portolan_control_plane::router(ApiDeps {
            journal: store.clone(),
            blobs,
            agents: store.clone(),
            keys: store.clone(),
            host: Arc::new(InlineHost::new(Arc::clone(&host), HostAbilities::default())),
            clock: Arc::clone(&clock),
            entropy,
            hash_key,
            shutdown: shutdown.clone(),
            config: ApiConfig::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{} {}", listener.local_addr()?, key.reveal());
        let (sweeping, renewing) = (Arc::clone(&host), Arc::clone(&host));
        tokio::spawn(async move { sweeping.run().await });
        tokio::spawn(async move { renewing.renew_leases().await });
        let limits = ServeLimits::default();
        let api = tokio::spawn(serve_http(listener, router, limits, clock, shutdown.clone()));
        signal(SignalKind::terminate())?.recv().await;
        shutdown.cancel();
        host.drain(1_000).await;
        api.await?;
        store.close().await;
        Ok(())
    })
}

struct NoWorkspaces;

impl WorkspaceHost for NoWorkspaces {
    fn open(
        &self,
        _run: RunRef,
        _source: &portolan_core::agent::WorkspaceSource,
    ) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        Err(WorkspaceError::Failed("there are no workspaces here".to_owned()))
    }

    fn discard(&self, _run: RunRef) {}
}

/// A model that answers at once: five answers, of which the first asks for two reads, the last is the result.
struct ZeroDelay;

impl ModelSource for ZeroDelay {
    fn model(&self, _name: &str) -> Result<Arc<dyn Model>, UnknownModel> {
        Ok(Arc::new(Self))
    }
}

impl Model for ZeroDelay {
    fn call<'a>(
        &'a self,
        _key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        let action = match request.history.len() {
            0 => Action::Batch(vec![read("c1"), read("c2")]),
            1..4 => Action::Call(read("c")),
            _ => Action::Final(FinalResult {
                id: None,
                value: Arguments::Json(Value::String("f".repeat(1_000))),
            }),
        };
        let text = matches!(action, Action::Call(_) | Action::Batch(_)).then(|| "t".repeat(850));
        let usage = TokenUsage {
            tokens_in: 100,
            tokens_out: 20,
            ..TokenUsage::default()
        };
        Box::pin(std::future::ready(Ok(ModelReply {
            text,
            usage: Some(usage),
            ..ModelReply::new(action)
        })))
    }

    fn honours_idempotency_keys(&self) -> bool {
        true
    }
}

fn read(id: &str) -> ToolCall {
    let arguments = Arguments::Json(json!({"operation": "read", "arguments": {"path": "a.txt"}}));
    ToolCall {
        id: id.to_owned(),
        name: "resource_docs".to_owned(),
        arguments,
    }
}
