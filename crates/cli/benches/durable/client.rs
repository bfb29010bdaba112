//! The load: so many callers, each starting a run, waiting for its end, and starting the next.

use crate::{Failure, server::Server};
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
        let (client, url, key) = (server.client.clone(), server.url.clone(), server.key.clone());
        callers.spawn(async move {
            while left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                .is_ok()
            {
                let time = one(&client, &url, &key).await?;
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

async fn one(client: &reqwest::Client, url: &str, key: &str) -> Result<(Duration, Duration), Failure> {
    let began = Instant::now();
    let body = json!({"agentName": "bench", "input": "go"}).to_string();
    let request = client
        .post(format!("{url}/v1/runs"))
        .bearer_auth(key)
        .header("content-type", "application/json");
    let answer = request.body(body).send().await?;
    let (status, body) = (answer.status(), answer.bytes().await?);
    let accepted = began.elapsed();
    if status != 201 {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
    }
    let created: Value = serde_json::from_slice(&body)?;
    let id = created
        .pointer("/run/id")
        .and_then(Value::as_str)
        .ok_or("no id")?;
    let answer = client
        .get(format!("{url}/v1/runs/{id}?waitMs=60000"))
        .bearer_auth(key)
        .send()
        .await?;
    let ended: Value = serde_json::from_slice(&answer.bytes().await?)?;
    let whole = began.elapsed();
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
