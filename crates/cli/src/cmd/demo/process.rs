//! The processes of the demo: the provider and the server, each this very program once more.

use crate::{Failure, failure::OrFail as _};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::OpenOptions,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
};

/// How long a process may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that said where it listens. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    what: &'static str,
    child: Child,
    pid: Pid,
    url: String,
    /// Kept open, so that the process can print.
    _stdout: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program with arguments; its log goes to a file.
    pub(super) async fn start(
        what: &'static str,
        arguments: &[&std::ffi::OsStr],
        directory: &Path,
        log: &str,
    ) -> Result<Self, Failure> {
        let failed = || format!("the {what} cannot be started");
        let program = std::env::current_exe().or_unavailable(failed)?;
        let log_path = directory.join(log);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log_path)
            .or_unavailable(failed)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        // What this shell has set for its own server is not meant for this one.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PORTOLAN_") {
                command.env_remove(name);
            }
        }
        let mut child = command.spawn().or_unavailable(failed)?;
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| Failure::unavailable(failed()))?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let ready = tokio::time::timeout(PATIENCE, stdout.read_line(&mut line)).await;
        let url = match ready {
            Ok(Ok(_)) => line
                .split_once("is ready on ")
                .map(|(_, url)| url.trim().to_owned()),
            Ok(Err(_)) | Err(_) => None,
        };
        let id = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        let (Some(url), Some(pid)) = (url, id) else {
            let log = std::fs::read_to_string(&log_path).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            return Err(Failure::unavailable(format!(
                "the {what} did not become ready\n{}",
                last.join("\n")
            )));
        };
        Ok(Self {
            what,
            child,
            pid,
            url,
            _stdout: stdout,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) const fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Kills the process with SIGKILL, and gives the signal that it died of, as its parent learns it.
    pub(super) async fn kill(mut self) -> Result<Option<i32>, Failure> {
        self.signal(Signal::KILL)?;
        Ok(self.wait().await?.signal())
    }

    /// Asks the process to end, and gives its exit code.
    pub(super) async fn terminate(mut self) -> Result<Option<i32>, Failure> {
        self.signal(Signal::TERM)?;
        Ok(self.wait().await?.code())
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill_process(self.pid, signal).or_unavailable(|| format!("the {} cannot be signalled", self.what))
    }

    async fn wait(&mut self) -> Result<ExitStatus, Failure> {
        let what = self.what;
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended
            .map_err(|_| Failure::unavailable(format!("the {what} does not end")))?
            .or_unavailable(|| format!("nobody saw how the {what} ended"))
    }
}
