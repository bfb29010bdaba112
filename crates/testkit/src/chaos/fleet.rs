//! The servers: processes of the binary on one database, each with a folder of its own.

use super::ChaosError;
use serde_json::Value;
use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::{Mutex, watch},
};

/// How long a server may take to be ready when nothing is wrong.
const READY: Duration = Duration::from_secs(30);

/// How long a lease holds without renewal, and how often free runs are looked for: short, so that many lives fit into an
/// hour.
pub(super) const LEASE_MS: u64 = 3_000;
pub(super) const SWEEP_MS: u64 = 500;

/// Where the servers keep their runs.
#[derive(Debug, Clone)]
pub(super) enum Database {
    /// SQLite in the folder of the only server.
    Sqlite,
    /// A database of that address, for all servers.
    Postgres(String),
}

/// All servers.
#[derive(Debug)]
pub(super) struct Fleet {
    binary: PathBuf,
    directory: PathBuf,
    database: Database,
    servers: Vec<Server>,
    /// Raised by every trouble when it comes and when it has gone: a request that saw it unchanged was in calm water.
    weather: AtomicU64,
    /// Troubles that are not over.
    storms: AtomicU64,
}

#[derive(Debug)]
struct Server {
    number: usize,
    child: Mutex<Option<Child>>,
    url: watch::Sender<Option<String>>,
}

impl Fleet {
    pub(super) fn new(
        binary: &Path,
        directory: &Path,
        database: Database,
        count: usize,
        provider_url: &str,
    ) -> Result<Arc<Self>, ChaosError> {
        for number in 0..count {
            let folder = directory.join(format!("server-{number}"));
            fs::create_dir_all(&folder)?;
            // A database of one owner knows no leases.
            let leases = match database {
                Database::Sqlite => String::new(),
                Database::Postgres(_) => format!("leaseMs = {LEASE_MS}\nsweepMs = {SWEEP_MS}\n"),
            };
            let config = format!(
                "{leases}[providers.demo]\nbaseUrl = \"{provider_url}/v1\"\nhonoursIdempotencyKeys = true\n\
                 [prices.\"demo/*\"]\ninputUsdPerMillion = \"0.40\"\noutputUsdPerMillion = \"1.60\"\n"
            );
            fs::write(folder.join("portolan.toml"), config)?;
        }
        let servers = (0..count).map(|number| Server {
            number,
            child: Mutex::new(None),
            url: watch::Sender::new(None),
        });
        Ok(Arc::new(Self {
            binary: binary.to_owned(),
            directory: directory.to_owned(),
            database,
            servers: servers.collect(),
            weather: AtomicU64::new(0),
            storms: AtomicU64::new(0),
        }))
    }

    pub(super) fn len(&self) -> usize {
        self.servers.len()
    }

    pub(super) fn folder(&self, number: usize) -> PathBuf {
        self.directory.join(format!("server-{number}"))
    }

    pub(super) const fn database(&self) -> &Database {
        &self.database
    }

    /// The address of a server that is up, from that one on.
    pub(super) fn url(&self, from: usize) -> Option<String> {
        (0..self.servers.len())
            .filter_map(|step| self.servers.get((from + step) % self.servers.len()))
            .find_map(|server| server.url.borrow().clone())
    }

    /// What to compare later: equal and calm means that nothing was wrong in between.
    pub(super) fn weather(&self) -> Option<u64> {
        (self.storms.load(Ordering::SeqCst) == 0).then(|| self.weather.load(Ordering::SeqCst))
    }

    pub(super) fn storm_begins(&self) {
        self.storms.fetch_add(1, Ordering::SeqCst);
        self.weather.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn storm_ends(&self) {
        self.weather.fetch_add(1, Ordering::SeqCst);
        self.storms.fetch_sub(1, Ordering::SeqCst);
    }

    /// Starts a server and waits until it is ready. A database that is away makes it end: then it is started again.
    pub(super) async fn start(&self, number: usize) -> Result<(), ChaosError> {
        let began = Instant::now();
        loop {
            match self.try_start(number).await {
                Ok(()) => return Ok(()),
                Err(error) if began.elapsed() > READY => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    async fn try_start(&self, number: usize) -> Result<(), ChaosError> {
        let server = self.server(number)?;
        let folder = self.folder(number);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join("server.log"))?;
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data", "data"])
            .current_dir(&folder)
            .env_clear()
            .env("PORTOLAN_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        for name in ["PATH", "HOME", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if let Database::Postgres(url) = &self.database {
            command.args(["--database", url]);
        }
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let line = tokio::time::timeout(READY, lines.next_line()).await??;
        let line = line.ok_or_else(|| format!("server {number} ended before it was ready: see its log"))?;
        let (_, url) = line
            .split_once("is ready on ")
            .ok_or_else(|| format!("server {number} said {line}"))?;
        *server.child.lock().await = Some(child);
        server.url.send_replace(Some(url.trim().to_owned()));
        Ok(())
    }

    fn server(&self, number: usize) -> Result<&Server, ChaosError> {
        self.servers
            .get(number)
            .ok_or_else(|| format!("there is no server {number}").into())
    }

    /// SIGKILL.
    pub(super) async fn kill(&self, number: usize) -> Result<(), ChaosError> {
        let server = self.server(number)?;
        server.url.send_replace(None);
        if let Some(mut child) = server.child.lock().await.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// SIGTERM, waited for. The server gives its runs back.
    pub(super) async fn drain(&self, number: usize) -> Result<(), ChaosError> {
        let server = self.server(number)?;
        server.url.send_replace(None);
        let Some(mut child) = server.child.lock().await.take() else {
            return Ok(());
        };
        signal(&child, "TERM").await?;
        let status = tokio::time::timeout(Duration::from_secs(40), child.wait()).await??;
        if status.success() {
            return Ok(());
        }
        Err(format!("server {number} did not drain: {status}").into())
    }

    /// SIGSTOP for a while, then SIGCONT. Its address stays known: whoever asks it waits.
    pub(super) async fn pause(&self, number: usize, time: Duration) -> Result<(), ChaosError> {
        let child = self.server(number)?.child.lock().await;
        let Some(child) = child.as_ref() else {
            return Ok(());
        };
        signal(child, "STOP").await?;
        tokio::time::sleep(time).await;
        signal(child, "CONT").await
    }

    /// Restarts whoever is down, or has ended by itself.
    pub(super) async fn mend(&self) -> Result<Vec<usize>, ChaosError> {
        let mut restarted = Vec::new();
        for server in &self.servers {
            let is_up = match server.child.lock().await.as_mut() {
                Some(child) => child.try_wait()?.is_none(),
                None => false,
            };
            if !is_up {
                server.url.send_replace(None);
                self.start(server.number).await?;
                restarted.push(server.number);
            }
        }
        Ok(restarted)
    }

    /// The admin key, which the server wrote that made the first tenant.
    pub(super) fn admin_key(&self) -> Result<String, ChaosError> {
        (0..self.servers.len())
            .find_map(|number| fs::read_to_string(self.folder(number).join("data/admin.key")).ok())
            .map(|key| key.trim().to_owned())
            .ok_or_else(|| "no server wrote an admin key".into())
    }

    /// Runs `portolan verify` on what the servers keep.
    pub(super) async fn verify(&self) -> Result<Value, ChaosError> {
        let mut command = Command::new(&self.binary);
        command
            .args(["verify", "--json"])
            .current_dir(self.folder(0))
            .stdin(Stdio::null());
        match &self.database {
            Database::Sqlite => command.args(["--data", "data"]),
            Database::Postgres(url) => command.args(["--database", url]),
        };
        let output = command.output().await?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(serde_json::from_str(&said)?);
        }
        let talk = String::from_utf8_lossy(&output.stderr);
        Err(format!("verify ended with {}: {said}{talk}", output.status).into())
    }
}

async fn signal(child: &Child, name: &str) -> Result<(), ChaosError> {
    let id = child.id().ok_or("the server has ended")?;
    // The shell's own `kill`: the program of that name is not on every machine.
    let status = Command::new("/bin/sh")
        .args(["-c", "kill -\"$1\" \"$2\"", "sh", name, &id.to_string()])
        .status()
        .await?;
    if !status.success() {
        return Err(format!("SIG{name} could not be sent to the server").into());
    }
    Ok(())
}
