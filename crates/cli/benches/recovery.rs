//! SIGKILL with 200 runs in flight: how soon the next process is ready, how soon every run has ended, what was executed twice.
//!
//! The server is the binary, the provider lives in this process and outlives it. A run makes ten calls of 100 ms; the server
//! is killed when four tenths of all calls are done. Beside the figures stands what was left to do: the longest rest of a run.
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
use process::Place;
use provider::Provider;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const RUNS: usize = 200;
const CALLS: usize = 10;
const CALL: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    for _ in 0..3 {
        measure().await?;
    }
    Ok(())
}

async fn measure() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let provider = Provider::start(CALLS, CALL).await?;
    let place = Place::new(folder.path(), &provider.url, 256)?;
    let server = place.serve().await?;
    server.put_agent(CALLS).await?;
    let mut connection = server.connect().await?;
    let mut runs = BTreeSet::new();
    for _ in 0..RUNS {
        let created = connection
            .post(
                "/v1/runs",
                &json!({"agentName": "bench", "input": "go"}).to_string(),
            )
            .await?
            .json(201)?;
        runs.insert(created["run"]["id"].as_str().ok_or("no id")?.to_owned());
    }
    while provider.executed().calls < RUNS * CALLS * 4 / 10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.kill().await?;
    let before = provider.executed();

    let restarted = Instant::now();
    let server = place.serve().await?;
    let left = longest_rest(&mut server.connect().await?, &runs).await?;
    let mut waiting = tokio::task::JoinSet::new();
    for id in runs {
        let mut connection = server.connect().await?;
        waiting.spawn(async move {
            let run = connection
                .get(&format!("/v1/runs/{id}?waitMs=60000"))
                .await?
                .json(200)?;
            Ok::<Value, Failure>(run)
        });
    }
    let mut ended = 0;
    while let Some(run) = waiting.join_next().await {
        let run = run??;
        if run["run"]["status"] != "succeeded" {
            return Err(format!("a run went wrong: {run}").into());
        }
        ended += 1;
    }
    let all_done = restarted.elapsed();
    let after = provider.executed();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "killed after {} of {} calls; ready after {:.0} ms; all {ended} runs ended after {:.0} ms, the longest rest being {:.0} ms: {:.0} ms more",
        before.calls,
        RUNS * CALLS,
        ms(server.ready_after),
        ms(all_done),
        ms(left),
        ms(all_done) - ms(left),
    );
    println!(
        "  executed {} calls for {} keys wanted: {} twice, {} lost; {} sends repeated a key, {} had none; {:.0} MiB",
        after.calls,
        RUNS * CALLS,
        after.calls.saturating_sub(RUNS * CALLS),
        RUNS - ended,
        after.repeated_sends,
        after.keyless,
        server.resident_mib()?,
    );
    Ok(())
}

/// What the run that is farthest from its end has still to do, by the calls that are in its journal.
async fn longest_rest(
    connection: &mut connection::Connection,
    runs: &BTreeSet<String>,
) -> Result<Duration, Failure> {
    let mut fewest = CALLS as u64;
    for id in runs {
        let run = connection.get(&format!("/v1/runs/{id}")).await?.json(200)?;
        let done = run.pointer("/run/usage/modelCalls").and_then(Value::as_u64);
        fewest = fewest.min(done.unwrap_or_default());
    }
    Ok(CALL * u32::try_from(CALLS as u64 - fewest)?)
}
