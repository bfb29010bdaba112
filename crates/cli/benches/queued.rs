//! 100,000 runs that wait for a place: how fast they are accepted, how soon a restart is ready, what memory it takes, how fast
//! they are worked off, and whether taking one costs more when many wait.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program that measures and prints"
)]

#[path = "stage/connection.rs"]
mod connection;
#[path = "stage/process.rs"]
mod process;
#[path = "stage/provider.rs"]
mod provider;

use portolan_cli as _;
use process::{Place, Process};
use provider::Provider;
use serde_json::json;
use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Connections that start runs.
const CALLERS: usize = 64;
/// How long runs are worked off.
const WORK: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let runs: usize = env::var("PORTOLAN_BENCH_RUNS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(100_000);
    let folder = tempfile::tempdir()?;
    // One place, taken by a run whose provider thinks for an hour: whatever comes after it waits.
    let slow = Provider::start(1, Duration::from_secs(3_600)).await?;
    let server = Place::new(folder.path(), &slow.url, 1)?.serve().await?;
    server.put_agent(1).await?;
    let idle = server.resident_mib()?;
    let began = Instant::now();
    enqueue(&server, runs).await?;
    let took = began.elapsed();
    println!(
        "{runs} runs accepted in {:.1} s: {:.0} a second; memory {idle:.0} MiB before, {:.0} MiB after",
        took.as_secs_f64(),
        runs as f64 / took.as_secs_f64(),
        server.resident_mib()?,
    );
    server.kill().await?;

    let server = Place::new(folder.path(), &slow.url, 1)?.serve().await?;
    let listed = server
        .connect()
        .await?
        .get("/v1/runs?status=queued&limit=1")
        .await?
        .json(200)?;
    println!(
        "restart after SIGKILL: ready after {:.0} ms, {:.0} MiB; the newest is {}",
        server.ready_after.as_secs_f64() * 1e3,
        server.resident_mib()?,
        listed["data"][0]["status"],
    );
    server.kill().await?;

    let quick = Provider::start(1, Duration::ZERO).await?;
    let server = Place::new(folder.path(), &quick.url, 256)?.serve().await?;
    let began = Instant::now();
    for part in 1..=2 {
        let before = quick.executed().calls;
        tokio::time::sleep(WORK / 2).await;
        println!(
            "  worked off, part {part}: {:.0} runs a second, {:.0} MiB",
            (quick.executed().calls - before) as f64 / (WORK / 2).as_secs_f64(),
            server.resident_mib()?
        );
    }
    println!(
        "  {} of {runs} after {:.0} s",
        quick.executed().calls,
        began.elapsed().as_secs_f64()
    );
    server.kill().await
}

async fn enqueue(server: &Process, runs: usize) -> Result<(), Failure> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (mut connection, next) = (server.connect().await?, Arc::clone(&next));
        callers.spawn(async move {
            let body = json!({"agentName": "bench", "input": "go"}).to_string();
            while next.fetch_add(1, Ordering::Relaxed) < runs {
                connection.post("/v1/runs", &body).await?.json(201)?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}
