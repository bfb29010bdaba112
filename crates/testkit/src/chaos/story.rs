//! The whole: set up, make trouble, heal, judge.

use super::{
    ChaosError,
    disk::SmallDisk,
    fleet::{Database, Fleet},
    history::History,
    proxy::Proxy,
    trouble::{Kind, Trouble},
    users::User,
    verdict::{Judge, Verdict},
};
use crate::postgres::Cluster;
use crate::random::Random;
use serde::Serialize;
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// Users at once.
const USERS: usize = 24;

/// The database of the servers.
const DATABASE: &str = "chaos";

/// How long the scripted provider thinks about an answer, in milliseconds.
const THINKING_MS: &str = "15";

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The binary.
    pub portolan: PathBuf,
    /// How long trouble is made.
    pub time: Duration,
    /// What the choices follow from.
    pub seed: u64,
    /// Servers on Postgres; none: one server on SQLite.
    pub replicas: Option<usize>,
    /// Whether the disk of the database is filled up at times. Needs root.
    pub fills_disk: bool,
    /// Whether it says what happens.
    pub is_talkative: bool,
}

/// What became of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How long trouble was made, in seconds.
    pub seconds: u64,
    /// Servers.
    pub servers: usize,
    /// What happened, by kind.
    pub trouble: BTreeMap<Kind, u64>,
    /// Replies that were lost after a commit.
    pub cuts: u64,
    /// Runs that were acknowledged.
    pub runs: usize,
    /// How often a run was taken over.
    pub recoveries: u64,
    /// Requests to the provider, and keys that were charged.
    pub sends: usize,
    /// Keys that were charged, each once.
    pub charged_keys: usize,
    /// Connections of readers.
    pub connections: u64,
    /// Events that they read.
    pub events_read: usize,
    /// Requests that failed, and the share that succeeded while nothing was wrong.
    pub failed_requests: u64,
    /// Requests in calm water.
    pub calm_requests: u64,
    /// Those of them that succeeded.
    pub calm_succeeded: u64,
    /// How long it took until every user had seen its run end, in seconds.
    pub healed_after: f64,
    /// Broken promises.
    pub violations: Vec<String>,
}

/// Makes trouble, heals, judges.
pub async fn run(options: &Options) -> Result<Report, ChaosError> {
    let folder = tempfile::Builder::new().prefix("portolan-chaos-").tempdir()?;
    let (provider, provider_url) = start_provider(&options.portolan, folder.path()).await?;
    let random = Random::new(options.seed);
    let (disk, cluster, proxy) = database(options, folder.path())?;
    let database = match &proxy {
        Some(proxy) => Database::Postgres(proxy.address(DATABASE)),
        None => Database::Sqlite,
    };
    let fleet = Fleet::new(
        &options.portolan,
        folder.path(),
        database,
        options.replicas.unwrap_or(1),
        &provider_url,
    )?;
    for number in 0..fleet.len() {
        fleet.start(number).await?;
    }
    let key = fleet.admin_key()?;
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
    put_agent(&fleet, &http, &key).await?;

    let (history, stop) = (History::default(), Arc::new(AtomicBool::new(false)));
    let mut users = tokio::task::JoinSet::new();
    for number in 0..USERS {
        let user = User {
            number,
            fleet: Arc::clone(&fleet),
            http: http.clone(),
            key: key.clone(),
            random: random.clone(),
            history: history.clone(),
            stop: Arc::clone(&stop),
        };
        users.spawn(user.go_on());
    }
    let mut trouble = Trouble {
        fleet: Arc::clone(&fleet),
        random,
        cluster,
        proxy,
        disk,
        happened: BTreeMap::new(),
        is_talkative: options.is_talkative,
    };
    let made = trouble.make(options.time).await;
    stop.store(true, Ordering::SeqCst);
    if let Err(error) = made {
        let kept = folder.keep();
        return Err(format!("{error}; everything is kept in {}", kept.display()).into());
    }
    let healing = Instant::now();
    while let Some(user) = users.join_next().await {
        user?;
    }
    let healed_after = healing.elapsed();
    let judge = Judge {
        fleet: &fleet,
        http: &http,
        key: &key,
        history: &history,
        provider_url: &provider_url,
    };
    let verdict = judge.judge().await?;
    let report = report(options, &trouble, &history, verdict, (fleet.len(), healed_after));
    for number in 0..fleet.len() {
        fleet.kill(number).await?;
    }
    drop(provider);
    if !report.violations.is_empty() {
        let kept = folder.keep();
        return Err(format!(
            "seed {} broke {} promises, everything is kept in {}:\n{}",
            report.seed,
            report.violations.len(),
            kept.display(),
            report.violations.join("\n")
        )
        .into());
    }
    Ok(report)
}

fn report(
    options: &Options,
    trouble: &Trouble,
    history: &History,
    verdict: Verdict,
    (servers, healed_after): (usize, Duration),
) -> Report {
    let inner = history.inner();
    Report {
        seed: options.seed,
        seconds: options.time.as_secs(),
        servers,
        trouble: trouble.happened.clone(),
        cuts: trouble.proxy.as_ref().map_or(0, Proxy::cuts),
        runs: verdict.runs,
        recoveries: verdict.recoveries,
        sends: verdict.sends,
        charged_keys: verdict.charged_keys,
        connections: verdict.connections,
        events_read: verdict.events_read,
        failed_requests: inner.failed_requests,
        calm_requests: inner.calm.tried,
        calm_succeeded: inner.calm.succeeded,
        healed_after: healed_after.as_secs_f64(),
        violations: verdict.violations,
    }
}

/// What can be done to the database, where there is one of several servers.
type Ground = (Option<SmallDisk>, Option<Cluster>, Option<Proxy>);

/// The database of several servers, and what can be done to it.
fn database(options: &Options, folder: &Path) -> Result<Ground, ChaosError> {
    if options.replicas.is_none() {
        return Ok((None, None, None));
    }
    let disk = match options.fills_disk {
        true => Some(SmallDisk::mount(folder)?),
        false => None,
    };
    let place = disk.as_ref().map_or(folder, SmallDisk::root);
    let cluster = Cluster::start_in(place);
    cluster.create(DATABASE);
    let proxy = Proxy::start(&folder.join("proxy"), &cluster.socket())?;
    Ok((disk, Some(cluster), Some(proxy)))
}

/// The scripted provider: a process that outlives every server and ends with this one.
async fn start_provider(binary: &Path, folder: &Path) -> Result<(Child, String), ChaosError> {
    let mut child = Command::new(binary)
        .args(["demo-provider", "--thinking-ms", THINKING_MS])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let line = lines.next_line().await?.ok_or("the provider did not start")?;
    let (_, url) = line
        .split_once("is ready on ")
        .ok_or("the provider said something else")?;
    Ok((child, url.trim().to_owned()))
}

async fn put_agent(fleet: &Fleet, http: &reqwest::Client, key: &str) -> Result<(), ChaosError> {
    let definition = json!({
        "name": "walker", "model": "demo/walk", "task": "Take six notes.", "tools": ["editor"],
        "resultSchema": {"type": "object", "required": ["notes"], "properties": {"notes": {"type": "integer"}}},
        "workspace": {"kind": "directory"},
    });
    let url = fleet.url(0).ok_or("no server is up")?;
    let request = http.put(format!("{url}/v1/agents/walker")).bearer_auth(key);
    let answer = request
        .header("content-type", "application/json")
        .body(definition.to_string())
        .send()
        .await?;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(format!("the agent was refused: {}", answer.text().await?).into())
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "seed {}, {} s of trouble for {} server(s): {:?}, {} replies lost after a commit",
            self.seed, self.seconds, self.servers, self.trouble, self.cuts
        )?;
        writeln!(
            f,
            "{} runs acknowledged, all ended {:.1} s after the last trouble; taken over {} times",
            self.runs, self.healed_after, self.recoveries
        )?;
        writeln!(
            f,
            "{} sends to the provider, {} keys charged, each once",
            self.sends, self.charged_keys
        )?;
        writeln!(
            f,
            "{} events read over {} connections, none lost, none twice",
            self.events_read, self.connections
        )?;
        write!(
            f,
            "{} requests failed; of {} in calm water {} succeeded; every promise held",
            self.failed_requests, self.calm_requests, self.calm_succeeded
        )
    }
}
