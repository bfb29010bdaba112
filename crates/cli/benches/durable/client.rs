//! The load: so many callers, each starting a run, waiting for its end, and starting the next.

use crate::{Failure, connection::Connection, server::Server};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) runs: u32,
    pub(crate) elapsed: Duration,
    pub(crate) accepted: Vec<Duration>,
    pub(crate) whole: Vec<Duration>,
}

/// Drives so many runs with so many callers. Every run has to succeed with the expected number of steps.
pub(crate) async fn drive(server: &Server, concurrency: usize, runs: u32) -> Result<Load, Failure> {
    let left = Arc::new(AtomicU32::new(runs));
    let times: Arc<Mutex<Vec<(Duration, Duration)>>> = Arc::default();
    let began = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..concurrency {
        let (left, times) = (Arc::clone(&left), Arc::clone(&times));
        let mut connection = Connection::open(&server.url, &server.key).await?;
        callers.spawn(async move {
            while left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                .is_ok()
            {
                let time = one(&mut connection).await?;
                times.lock().map_err(|_| "a caller panicked")?.push(time);
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    let elapsed = began.elapsed();
    let times = times.lock().map_err(|_| "a caller panicked")?;
    let (accepted, whole) = times.iter().copied().unzip();
    Ok(Load {
        runs,
        elapsed,
        accepted,
        whole,
    })
}

async fn one(connection: &mut Connection) -> Result<(Duration, Duration), Failure> {
    let began = Instant::now();
    let created = connection
        .post("/v1/runs", r#"{"agentName": "bench", "input": "go"}"#)
        .await?;
    let accepted = began.elapsed();
    let created = created.json(201)?;
    let id = created
        .pointer("/run/id")
        .and_then(Value::as_str)
        .ok_or("no id")?;
    let ended = connection.get(&format!("/v1/runs/{id}?waitMs=60000")).await?;
    let whole = began.elapsed();
    let ended = ended.json(200)?;
    let usage = (
        ended.pointer("/run/usage/modelCalls"),
        ended.pointer("/run/usage/toolCalls"),
    );
    if ended.pointer("/run/status") != Some(&json!("succeeded"))
        || usage != (Some(&json!(5)), Some(&json!(5)))
    {
        return Err(format!("a run went wrong: {ended}").into());
    }
    Ok((accepted, whole))
}

/// The median and the 99th percentile.
pub(crate) fn percentiles(times: &[Duration]) -> [Duration; 2] {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    [50, 99].map(|percent| {
        sorted
            .get((sorted.len() * percent / 100).min(sorted.len() - 1))
            .copied()
            .unwrap_or_default()
    })
}
