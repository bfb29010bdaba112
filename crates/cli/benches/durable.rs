//! Durable runs through HTTP: runs and steps a second, latencies, memory and disk, beside one-by-one durable commits.
//!
//! The server is a process of its own (this program, started again), with the real store, engine and API and a model that
//! answers at once. The client is this process. Both share the machine's cores. A run has ten steps, five of a model and
//! five of a tool, each with an output of about 1 KB. Every figure that depends on the disk is also given in units of the
//! probe: the median time of one durable SQLite commit of 1 KB in the same folder, in the same sitting.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program that measures and prints"
)]

#[path = "durable/client.rs"]
mod client;
#[path = "stage/connection.rs"]
mod connection;
#[path = "durable/probe.rs"]
mod probe;
#[path = "durable/server.rs"]
mod server;

// The allocator of the product.
use portolan_cli as _;
use std::{env, path::Path, time::Duration};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Steps of one run.
const STEPS: u32 = 10;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().collect();
    if let [_, role, directory] = arguments.as_slice()
        && role == "--server"
    {
        return server::serve(Path::new(directory));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure(
        env::var("PORTOLAN_BENCH_RUNS")
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(1_000),
    ))
}

async fn measure(runs: u32) -> Result<(), Failure> {
    let folder =
        tempfile::tempdir_in(env::var_os("PORTOLAN_BENCH_DIR").unwrap_or_else(|| env::temp_dir().into()))?;
    let commit = probe::commit_time(&folder.path().join("probe.db"))?;
    println!("probe: one durable commit of 1 KB, p50 {}", micros(commit));
    for (concurrency, runs) in [(1, runs), (64, runs)] {
        let directory = folder.path().join(format!("c{concurrency}"));
        let server = server::Server::start(&directory).await?;
        let idle = server.resident_kib()?;
        // A fresh log grows at first, which costs the disk more than writing over it.
        let warm_up = if concurrency == 1 { 100 } else { 1_000 };
        client::drive(&server, concurrency, warm_up).await?;
        let load = client::drive(&server, concurrency, runs).await?;
        report(concurrency, &load, commit);
        if concurrency == 64 {
            let more = 10_000_u32.saturating_sub(runs + warm_up);
            let long = client::drive(&server, concurrency, more).await?;
            report(concurrency, &long, commit);
            let (kib, mib) = (server.resident_kib()?, |kib: u64| kib as f64 / 1_024.0);
            println!(
                "  memory: {:.1} MiB idle, {:.1} MiB after 10,000 runs",
                mib(idle),
                mib(kib)
            );
            let bytes = server.stop_and_measure_disk().await?;
            println!(
                "  disk: {:.0} bytes a step",
                bytes as f64 / (10_000.0 * f64::from(STEPS))
            );
        }
    }
    println!(
        "probe again: p50 {}",
        micros(probe::commit_time(&folder.path().join("probe2.db"))?)
    );
    Ok(())
}

fn report(concurrency: usize, load: &client::Load, commit: Duration) {
    let commits = |time: Duration| time.as_secs_f64() / commit.as_secs_f64();
    let per_second = f64::from(load.runs) / load.elapsed.as_secs_f64();
    let steps = per_second * f64::from(STEPS);
    println!(
        "concurrency {concurrency}: {} runs in {:.2} s: {per_second:.0} runs/s, {steps:.0} steps/s, {:.2} steps a commit-time",
        load.runs,
        load.elapsed.as_secs_f64(),
        steps * commit.as_secs_f64(),
    );
    let [accepted, accepted_99] = client::percentiles(&load.accepted);
    let [whole, whole_99] = client::percentiles(&load.whole);
    println!(
        "  POST to 201: p50 {} ({:.1} commit-times), p99 {}",
        micros(accepted),
        commits(accepted),
        micros(accepted_99)
    );
    println!(
        "  POST to the end: p50 {} ({:.1} commit-times), p99 {}",
        micros(whole),
        commits(whole),
        micros(whole_99)
    );
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}
