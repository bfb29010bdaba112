//! From a commit to the sockets of its readers: 100 runs with 100 readers each, one event a second for every run.
//!
//! The server is a process of its own (this program, started again) with the real store and API; it commits the events itself
//! and notes when each was durable. The client is this process. Both share the machine's cores and its monotonic clock. The
//! moment of a commit is when the store answers, which is a little after it told the readers.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program that measures and prints"
)]

#[path = "../tests/it/crowd.rs"]
mod crowd;
#[path = "fanout/server.rs"]
mod server;

use crowd::{Address, End, Reader, Witness, raise_descriptor_limit};
use portolan_cli as _;
use std::{collections::HashMap, env, path::Path, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::watch,
    task::JoinSet,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const RUNS: usize = 100;
const READERS_A_RUN: usize = 100;
const SECONDS: u64 = 20;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let arguments: Vec<String> = env::args().collect();
    match arguments.as_slice() {
        [_, role, directory] if role == "--server" => runtime.block_on(server::serve(Path::new(directory))),
        _ => runtime.block_on(measure()),
    }
}

/// The server's process, and what it says.
struct Server {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(directory: &Path) -> Result<Self, Failure> {
        let mut process = Command::new(env::current_exe()?)
            .arg("--server")
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = BufReader::new(process.stdout.take().ok_or("no output")?).lines();
        Ok(Self { process, lines })
    }

    async fn line(&mut self) -> Result<String, Failure> {
        Ok(self.lines.next_line().await?.ok_or("the server ended")?)
    }
}

async fn measure() -> Result<(), Failure> {
    raise_descriptor_limit();
    let folder = tempfile::tempdir()?;
    let mut server = Server::start(folder.path())?;
    let ready = server.line().await?;
    let (url, key) = ready.split_once(' ').ok_or("the server said something else")?;
    let at = Address::new(url, key.to_owned());
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(server.line().await?);
    }
    let witness = Arc::new(Witness::default());
    let (mut readers, mut caught_up) = (JoinSet::new(), Vec::new());
    for number in 0..RUNS * READERS_A_RUN {
        let mut reader = Reader::new(&runs[number % RUNS], &witness);
        let (progress, seen) = watch::channel(0);
        reader.progress = Some(progress);
        reader.arrivals = Some(Vec::new());
        caught_up.push(seen);
        let at = at.clone();
        readers.spawn(async move {
            let end = reader.connect(&at, None).await;
            (reader, end)
        });
    }
    for seen in &mut caught_up {
        seen.wait_for(|after| *after >= 1).await?;
    }
    drop(caught_up);
    let mut stdin = server.process.stdin.take().ok_or("no input")?;
    stdin.write_all(format!("{SECONDS}\n").as_bytes()).await?;

    let mut commits = HashMap::new();
    while let Some(line) = server.lines.next_line().await? {
        let fields: Vec<&str> = line.split(' ').collect();
        let [run, seq, at] = fields.as_slice() else { break };
        let at = Duration::from_micros(at.parse()?);
        commits.insert(((*run).to_owned(), seq.parse::<u64>()?), at);
    }
    let mut times = Vec::new();
    while let Some(joined) = readers.join_next().await {
        let (reader, end) = joined?;
        if end? != End::Complete || reader.after != witness.last(&reader.run) {
            return Err(format!("a reader of {} ended at {}", reader.run, reader.after).into());
        }
        for (seq, arrived) in reader.arrivals.unwrap_or_default() {
            if let Some(committed) = commits.get(&(reader.run.clone(), seq)) {
                times.push(arrived.saturating_sub(*committed));
            }
        }
    }
    times.sort_unstable();
    let at = |share: usize| times.get(times.len().saturating_sub(1) * share / 1_000);
    println!(
        "{} events at {} readers: p50 {:?}, p99 {:?}, p99.9 {:?}",
        times.len(),
        RUNS * READERS_A_RUN,
        at(500),
        at(990),
        at(999)
    );
    drop(stdin);
    server.process.wait().await?;
    Ok(())
}
