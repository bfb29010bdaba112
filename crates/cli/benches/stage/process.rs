//! `portolan serve` as a process of its own, which can be killed and started again on the same data.

use super::connection::Connection;
use crate::Failure;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// A server.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) url: String,
    pub(crate) key: String,
    /// From its start to its line about being ready.
    pub(crate) ready_after: Duration,
}

/// A folder with a configuration that knows the provider.
#[derive(Debug)]
pub(crate) struct Place {
    directory: PathBuf,
}

impl Place {
    pub(crate) fn new(
        directory: &Path,
        provider_url: &str,
        max_concurrent_runs: u32,
    ) -> Result<Self, Failure> {
        let config = format!(
            "maxConcurrentRuns = {max_concurrent_runs}\n[providers.bench]\nbaseUrl = \"{provider_url}\"\nhonoursIdempotencyKeys = true\n\
             [prices.\"bench/*\"]\ninputUsdPerMillion = \"0.40\"\noutputUsdPerMillion = \"1.60\"\n"
        );
        fs::create_dir_all(directory)?;
        fs::write(directory.join("portolan.toml"), config)?;
        Ok(Self {
            directory: directory.to_owned(),
        })
    }

    pub(crate) async fn serve(&self) -> Result<Process, Failure> {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.directory.join("server.log"))?;
        let began = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_portolan"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data", "data"])
            .env("PORTOLAN_LOG", "warn")
            .current_dir(&self.directory)
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let line = lines.next_line().await?.ok_or("the server did not start")?;
        let ready_after = began.elapsed();
        let (_, url) = line
            .split_once("is ready on ")
            .ok_or("the server said something else")?;
        let key = fs::read_to_string(self.directory.join("data/admin.key"))?;
        Ok(Process {
            child,
            url: url.trim().to_owned(),
            key: key.trim().to_owned(),
            ready_after,
        })
    }
}

impl Process {
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        Connection::open(&self.url, &self.key).await
    }

    /// Makes the agent of the benchmark.
    pub(crate) async fn put_agent(&self, calls: usize) -> Result<(), Failure> {
        let definition = json!({
            "name": "bench", "model": "bench/model", "task": "Read, then answer.",
            "resources": {"docs": {"files": {"a.txt": "r".repeat(1_000)}}},
            "limits": {"modelCalls": calls, "toolCalls": calls},
            "resultSchema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
        });
        let answer = self
            .connect()
            .await?
            .put("/v1/agents/bench", &definition.to_string())
            .await?;
        match answer.status {
            200 | 201 => Ok(()),
            _ => answer.json(201).map(drop),
        }
    }

    /// Resident memory now.
    pub(crate) fn resident_mib(&self) -> Result<f64, Failure> {
        let id = self.child.id().ok_or("the server has ended")?;
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .ok_or("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1_024.0)
    }

    /// SIGKILL, waited for.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }
}
