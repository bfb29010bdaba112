//! The server of a case, over its lives: whoever dies of SIGKILL is started again, without faults.

use super::case::Case;
use crate::{crowd::Address, support::portolan};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, OpenOptions},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering},
    },
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    sync::watch,
    task::JoinHandle,
};

/// Lives after which something is wrong.
const MOST_LIVES: u32 = 4;

pub(super) struct Supervisor {
    at: watch::Receiver<Option<Address>>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    database: Option<String>,
    case: Case,
    pid: AtomicI32,
    deaths: AtomicU32,
    /// Whether the next end is the last one.
    ends: AtomicBool,
}

impl Supervisor {
    pub(super) fn new(folder: &Path, provider: &str, database: Option<String>, case: Case) -> Self {
        let config = format!(
            "leaseMs = 600\nsweepMs = 100\nmaxConcurrentRuns = 3\nallowHostShell = true\n[providers.demo]\n\
             baseUrl = \"{provider}/v1\"\nhonoursIdempotencyKeys = true\n[prices.\"demo/*\"]\n\
             inputUsdPerMillion = \"0.40\"\noutputUsdPerMillion = \"1.60\"\n"
        );
        fs::write(folder.join("portolan.toml"), config).expect("written");
        let shared = Arc::new(Shared {
            folder: folder.to_owned(),
            database,
            case,
            pid: AtomicI32::new(0),
            deaths: AtomicU32::new(0),
            ends: AtomicBool::new(false),
        });
        let (publish, at) = watch::channel(None);
        let task = tokio::spawn(live(Arc::clone(&shared), publish));
        Self { at, shared, task }
    }

    /// Where the server is, while it is.
    pub(super) fn servers(&self) -> watch::Receiver<Option<Address>> {
        self.at.clone()
    }

    /// Kills the server from outside.
    pub(super) fn kill(&self) {
        self.shared.signal(Signal::KILL);
    }

    /// Whether the point was passed.
    pub(super) fn has_fired(&self) -> bool {
        let name = self.shared.case.point.name();
        let report = fs::read_to_string(self.shared.folder.join("faults.txt")).unwrap_or_default();
        report.lines().any(|line| line == name)
    }

    /// Asks the server to end, which it does in the end, and gives the number of deaths.
    pub(super) async fn end(self) -> u32 {
        self.shared.ends.store(true, Ordering::SeqCst);
        self.shared.signal(Signal::TERM);
        self.task.await.expect("the server ends as it is asked to");
        self.shared.deaths.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid.load(Ordering::SeqCst)) {
            let _ = kill_process(pid, signal);
        }
    }

    /// The command of a life, which is armed or not.
    fn command(&self, is_armed: bool) -> Command {
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--data", "data"];
        if let Some(database) = &self.database {
            arguments.extend(["--database", database]);
        }
        let mut command = portolan(&self.folder, &arguments);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("server.log"));
        command.stdout(Stdio::piped()).stderr(log.expect("writable"));
        if is_armed {
            command
                .env("PORTOLAN_FAULTS", self.case.rules())
                .env("PORTOLAN_FAULTS_REPORT", self.folder.join("faults.txt"));
        }
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        command
    }
}

async fn live(shared: Arc<Shared>, at: watch::Sender<Option<Address>>) {
    let armed_life = u32::from(shared.case.needs_heritage());
    for life in 0..MOST_LIVES {
        let mut child = shared
            .command(life == armed_life)
            .spawn()
            .expect("it can be started");
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or(0);
        shared.pid.store(pid, Ordering::SeqCst);
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        let _ = out.read_line(&mut line).await;
        if let Some((_, url)) = line.split_once("is ready on ") {
            let key = fs::read_to_string(shared.folder.join("data/admin.key")).expect("there");
            at.send_replace(Some(Address::new(url.trim(), key.trim().to_owned())));
        }
        if life > 0 && shared.ends.load(Ordering::SeqCst) {
            shared.signal(Signal::TERM);
        }
        let status = child.wait().await.expect("it is ours");
        shared.pid.store(0, Ordering::SeqCst);
        at.send_replace(None);
        if status.signal() != Some(9) {
            let log = fs::read_to_string(shared.folder.join("server.log")).unwrap_or_default();
            assert!(
                status.success() && shared.ends.load(Ordering::SeqCst),
                "the server ended with {status}: {log}"
            );
            return;
        }
        // The death that leaves a heritage is no death of the case.
        shared
            .deaths
            .fetch_add(u32::from(life >= armed_life), Ordering::SeqCst);
    }
    panic!("the server died {MOST_LIVES} times");
}
