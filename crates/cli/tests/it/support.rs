//! Processes of the binary, and what tests ask them.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};
use tempfile::TempDir;

/// A directory of a test.
pub(crate) fn scratch() -> TempDir {
    tempfile::Builder::new()
        .prefix("portolan-test-")
        .tempdir()
        .expect("a directory can be made")
}

/// The binary with arguments, in a directory, with nothing of the caller's configuration.
pub(crate) fn portolan(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .env_clear();
    for name in ["PATH", "TMPDIR", "HOME"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(mut command: Command) -> Self {
        let output = command.output().expect("the binary can be started");
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("the output is text"),
            stderr: String::from_utf8(output.stderr).expect("the talk is text"),
        }
    }

    /// The one document on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// The failure says that.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        assert!(self.stderr.contains(text), "{text:?} is not in:\n{}", self.stderr);
    }
}

/// Runs the binary to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Ended {
    Ended::of(portolan(directory, arguments))
}

/// A process that said where it listens. It dies with this value.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) url: String,
    pub(crate) ready_line: String,
    log: PathBuf,
}

impl Daemon {
    pub(crate) fn start(directory: &Path, log: &str, arguments: &[&str]) -> Self {
        let log = directory.join(log);
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .expect("the log can be written");
        let mut command = portolan(directory, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().expect("the binary can be started");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut ready_line = String::new();
        stdout.read_line(&mut ready_line).expect("readable");
        let url = ready_line
            .split_once("is ready on ")
            .map(|(_, url)| url.trim().to_owned());
        let Some(url) = url else {
            let status = child.wait();
            panic!(
                "not ready: {status:?}\n{}",
                fs::read_to_string(&log).unwrap_or_default()
            );
        };
        Self {
            child,
            stdout,
            url,
            ready_line,
            log,
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process id");
        kill_process(pid, signal).expect("it is ours");
    }

    /// What the system says about the process.
    pub(crate) fn proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("it lives")
    }

    /// The memory that it has.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        kib.expect("the system counts it") * 1_024
    }

    /// Waits for the end; the rest of stdout comes with it.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it is ours");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("text");
        (status, rest)
    }

    /// Kills it and proves that it died of that.
    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
        let (status, _) = self.wait();
        assert_eq!(status.signal(), Some(9));
    }

    /// Waits until the log says something. The process is alive, so the log grows or the test is ended from outside.
    pub(crate) fn wait_for_log(&self, text: &str) {
        while !fs::read_to_string(&self.log).expect("readable").contains(text) {
            std::thread::yield_now();
        }
    }

    /// Asks for a JSON document without a key, as only the provider lets one.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = client()
            .get(format!("{}{path}", self.url))
            .send()
            .await
            .expect("it answers");
        let body = response.bytes().await.expect("whole");
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Starts a run of the walker and gives its id.
    pub(crate) async fn start_run(&self, key: &str) -> String {
        let request = client()
            .post(format!("{}/v1/runs", self.url))
            .bearer_auth(key)
            .header("content-type", "application/json")
            .body(r#"{"agentName":"walker","input":null}"#);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 201);
        let body = response.bytes().await.expect("whole");
        let run: Value = serde_json::from_slice(&body).expect("JSON");
        run["run"]["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn release(&self) {
        let released = client()
            .post(format!("{}/control/release", self.url))
            .send()
            .await;
        assert!(released.is_ok_and(|response| response.status().is_success()));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP client that needs no root certificates.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .expect("a client")
}

/// A directory with a provider and a configuration that knows it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) directory: TempDir,
    pub(crate) provider: Daemon,
}

impl Stage {
    pub(crate) fn set(provider_arguments: &[&str]) -> Self {
        let directory = scratch();
        let mut arguments = vec!["demo-provider"];
        arguments.extend(provider_arguments);
        let provider = Daemon::start(directory.path(), "provider.log", &arguments);
        let config = format!(
            "allowHostShell = true\n[providers.demo]\nbaseUrl = \"{}/v1\"\nhonoursIdempotencyKeys = true\n\
             [prices.\"demo/*\"]\ninputUsdPerMillion = \"0.40\"\noutputUsdPerMillion = \"1.60\"\n",
            provider.url
        );
        fs::write(directory.path().join("portolan.toml"), config).expect("written");
        Self { directory, provider }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn serve(&self) -> Daemon {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, more: &[&str]) -> Daemon {
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--data", "data"];
        arguments.extend(more);
        Daemon::start(self.path(), "server.log", &arguments)
    }

    /// Runs a command against a server.
    pub(crate) fn on(&self, server: &Daemon, arguments: &[&str]) -> Ended {
        let mut command = portolan(self.path(), arguments);
        command
            .env("PORTOLAN_URL", &server.url)
            .env("PORTOLAN_DATA", "data");
        Ended::of(command)
    }

    /// Writes an agent that takes six notes, with lines of its own.
    pub(crate) fn write_walker(&self, name: &str, more: &str) -> String {
        let file = format!("{name}.toml");
        let text = format!(
            "name = \"{name}\"\nmodel = \"demo/walk\"\ntask = \"Take six notes.\"\ntools = [\"editor\"]\n\
             resultSchema = {{ type = \"object\", required = [\"notes\"], properties = {{ notes = {{ type = \"integer\" }} }} }}\n\
             {more}\n[workspace]\nkind = \"directory\"\n"
        );
        fs::write(self.path().join(&file), text).expect("written");
        file
    }

    /// The ledger of the provider.
    pub(crate) async fn sends(&self) -> Vec<Value> {
        let ledger = self.provider.get("/control/ledger").await;
        ledger["sends"].as_array().expect("a list").clone()
    }

    pub(crate) fn admin_key(&self) -> String {
        let key = fs::read_to_string(self.path().join("data/admin.key")).expect("there");
        key.trim().to_owned()
    }
}

/// Every key was charged once, nothing was refused, and a key always came with the same bytes. Gives the number of keys.
#[track_caller]
pub(crate) fn assert_charged_once(sends: &[Value]) -> usize {
    let mut charges = std::collections::BTreeMap::<&str, (usize, &str)>::new();
    for send in sends {
        let key = send["key"].as_str().expect("every send has a key");
        let digest = send["digest"].as_str().expect("a digest");
        let entry = charges.entry(key).or_insert((0, digest));
        assert_eq!(entry.1, digest, "{key} came with other bytes");
        assert_ne!(send["answered"], "refused", "{send}");
        entry.0 += usize::from(send["answered"] == "charged");
    }
    for (key, (count, _)) in &charges {
        assert_eq!(*count, 1, "{key} was charged {count} times");
    }
    charges.len()
}

/// The events are dense from 1 and end once.
#[track_caller]
pub(crate) fn assert_dense(events: &[Value]) {
    let seqs: Vec<u64> = events
        .iter()
        .map(|event| event["seq"].as_u64().expect("a place"))
        .collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
    let ends: Vec<&Value> = events
        .iter()
        .filter(|event| {
            matches!(
                event["kind"].as_str(),
                Some("run_succeeded" | "run_failed" | "run_cancelled")
            )
        })
        .collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(events.last(), ends.first().copied());
}
