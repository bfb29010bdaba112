//! Users: each starts one run after the other, and knows only what it was told.

use super::{fleet::Fleet, history::History, reader::Reader};
use crate::random::Random;
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How long a request may take before a user gives it up.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a run may take to end once nothing is wrong any more.
const LONGEST_RUN: Duration = Duration::from_secs(90);

/// Somebody who starts runs.
#[derive(Debug)]
pub(super) struct User {
    pub(super) number: usize,
    pub(super) fleet: Arc<Fleet>,
    pub(super) http: reqwest::Client,
    pub(super) key: String,
    pub(super) random: Random,
    pub(super) history: History,
    pub(super) stop: Arc<AtomicBool>,
}

/// What a request was answered.
enum Answer {
    Said(u16, Value),
    Nothing,
}

impl User {
    /// Starts runs until it is told to stop, and sees the last one to its end.
    pub(super) async fn go_on(self) {
        let mut begun = 0;
        while !self.stop.load(Ordering::SeqCst) {
            begun += 1;
            let key = format!("user-{}-run-{begun}", self.number);
            let Some(run) = self.begin(&key).await else {
                return;
            };
            if self.random.percent(15) {
                self.cancel(&run).await;
            }
            if self.random.percent(40) {
                self.follow(&run).await;
            }
            self.see_to_the_end(&run).await;
        }
    }

    /// Asks until it is acknowledged.
    async fn begin(&self, key: &str) -> Option<String> {
        self.history.begun(key);
        loop {
            let sent = self
                .ask(
                    "POST",
                    "/v1/runs",
                    Some((key, r#"{"agentName":"walker","input":null}"#)),
                )
                .await;
            match sent {
                Answer::Said(200 | 201, body) => {
                    let run = body["run"]["id"].as_str()?.to_owned();
                    self.history.acknowledged(key, &run);
                    return Some(run);
                }
                Answer::Said(409 | 429 | 503, _) | Answer::Nothing => pause().await,
                Answer::Said(status, body) => {
                    self.history
                        .surprise(format!("a start was answered {status}: {body}"));
                    return None;
                }
            }
        }
    }

    async fn cancel(&self, run: &str) {
        let wait = self.random.within(0..40);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        self.history.cancel_asked(run);
        loop {
            match self.ask("POST", &format!("/v1/runs/{run}/cancel"), None).await {
                Answer::Said(202, _) => return self.history.cancelled(run),
                // It has ended before.
                Answer::Said(409, _) => return,
                Answer::Said(429 | 503, _) | Answer::Nothing => pause().await,
                Answer::Said(status, body) => {
                    return self
                        .history
                        .surprise(format!("a cancel of {run} was answered {status}: {body}"));
                }
            }
        }
    }

    async fn follow(&self, run: &str) {
        let reader = Reader {
            fleet: Arc::clone(&self.fleet),
            http: self.http.clone(),
            key: self.key.clone(),
            random: self.random.clone(),
            history: self.history.clone(),
        };
        let mut reading = std::pin::pin!(reader.follow(run));
        let mut calm_since = Instant::now();
        // A stream may take as long as trouble lasts, and the time of a run after that.
        while calm_since.elapsed() < LONGEST_RUN {
            if let Ok(ended) = tokio::time::timeout(Duration::from_secs(1), &mut reading).await {
                if !ended {
                    self.history
                        .surprise(format!("a reader of {run} does not get on"));
                }
                return;
            }
            if self.fleet.weather().is_none() {
                calm_since = Instant::now();
            }
        }
        self.history.surprise(format!(
            "a stream of {run} has not ended {LONGEST_RUN:?} after the last trouble"
        ));
    }

    async fn see_to_the_end(&self, run: &str) {
        let mut calm_since = Instant::now();
        while calm_since.elapsed() < LONGEST_RUN {
            match self
                .ask("GET", &format!("/v1/runs/{run}?waitMs=2000"), None)
                .await
            {
                Answer::Said(200, body) => {
                    if body["run"]["finishedAt"].is_string() {
                        let status = body["run"]["status"].as_str().unwrap_or_default();
                        return self.history.ended(run, status);
                    }
                }
                Answer::Said(429 | 503, _) | Answer::Nothing => pause().await,
                Answer::Said(status, body) => {
                    return self
                        .history
                        .surprise(format!("acknowledged run {run} was answered {status}: {body}"));
                }
            }
            if self.fleet.weather().is_none() {
                calm_since = Instant::now();
            }
        }
        self.history.surprise(format!(
            "{run} has not ended {LONGEST_RUN:?} after the last trouble"
        ));
    }

    async fn ask(&self, method: &str, path: &str, body: Option<(&str, &str)>) -> Answer {
        let Some(url) = self.fleet.url(self.random.index(self.fleet.len())) else {
            return Answer::Nothing;
        };
        let before = self.fleet.weather();
        let address = format!("{url}{path}");
        let mut request = match method {
            "POST" => self.http.post(address),
            _ => self.http.get(address),
        };
        request = request
            .bearer_auth(&self.key)
            .header("accept", "application/json")
            .timeout(PATIENCE);
        if let Some((key, body)) = body {
            request = request
                .header("idempotency-key", key)
                .header("content-type", "application/json")
                .body(body.to_owned());
        }
        let answer = read(request).await;
        let calm = before.is_some() && before == self.fleet.weather();
        self.history
            .request(calm, matches!(answer, Answer::Said(status, _) if status < 500));
        answer
    }
}

async fn read(request: reqwest::RequestBuilder) -> Answer {
    let Ok(response) = request.send().await else {
        return Answer::Nothing;
    };
    let status = response.status().as_u16();
    match response.bytes().await {
        Ok(body) => Answer::Said(status, serde_json::from_slice(&body).unwrap_or_default()),
        Err(_) => Answer::Nothing,
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
