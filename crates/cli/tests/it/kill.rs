//! Twenty servers die of SIGKILL at random moments while twenty clients keep runs going. What was acknowledged succeeds, no
//! key is charged twice, and no journal has a gap.

use crate::{
    random::Random,
    support::{Daemon, Stage, assert_charged_once, assert_dense, client},
};
use reqwest::{Client, StatusCode};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

const KILLS: u32 = 20;
const CLIENTS: usize = 20;
/// Sends between two deaths: enough that a run gets on before it is taken over for the fifth time.
const SENDS: std::ops::Range<u64> = 40..140;
const JITTER_US: std::ops::Range<u64> = 0..15_000;

/// Somebody who starts one run after the other, and knows only what was acknowledged.
#[derive(Debug)]
struct User {
    number: usize,
    /// Runs that were begun: the key of the request that is repeated until it is acknowledged.
    begun: usize,
    open: Option<Open>,
    ended: Vec<String>,
}

#[derive(Debug)]
enum Open {
    Unacknowledged,
    Acknowledged(String),
}

/// Where a user's server is, and whether it may still begin runs.
#[derive(Debug)]
struct Place {
    http: Client,
    url: String,
    key: String,
    may_begin: bool,
}

/// The server is gone.
struct Gone;

impl User {
    /// Goes on until the server is gone, or until nothing is open and nothing may be begun.
    async fn go_on(mut self, place: Arc<Place>) -> Self {
        while self.step(&place).await.is_ok_and(|more| more) {}
        self
    }

    async fn step(&mut self, place: &Place) -> Result<bool, Gone> {
        match &self.open {
            None if place.may_begin => {
                self.begun += 1;
                self.open = Some(Open::Unacknowledged);
            }
            None => return Ok(false),
            Some(Open::Unacknowledged) => {
                let id = self.begin(place).await?;
                self.open = Some(Open::Acknowledged(id));
            }
            Some(Open::Acknowledged(id)) => {
                let run = place.get(&format!("/v1/runs/{id}?waitMs=20000")).await?;
                if run["run"]["finishedAt"].is_string() {
                    self.ended.push(id.clone());
                    self.open = None;
                }
            }
        }
        Ok(true)
    }

    async fn begin(&self, place: &Place) -> Result<String, Gone> {
        let sent = place
            .http
            .post(format!("{}/v1/runs", place.url))
            .bearer_auth(&place.key)
            .header("content-type", "application/json")
            .header(
                "idempotency-key",
                format!("user-{}-run-{}", self.number, self.begun),
            )
            .body(r#"{"agentName":"walker","input":null}"#)
            .send()
            .await;
        let answer = read(sent, StatusCode::CREATED).await?;
        Ok(answer["run"]["id"].as_str().expect("an id").to_owned())
    }
}

impl Place {
    async fn get(&self, path: &str) -> Result<Value, Gone> {
        let request = self
            .http
            .get(format!("{}{path}", self.url))
            .bearer_auth(&self.key);
        let sent = request.header("accept", "application/json").send().await;
        read(sent, StatusCode::OK).await
    }
}

/// An answer that came whole; another status than the expected one is no accident of a dying server.
async fn read(sent: Result<reqwest::Response, reqwest::Error>, expected: StatusCode) -> Result<Value, Gone> {
    let response = sent.map_err(|_| Gone)?;
    let status = response.status();
    let body = response.bytes().await.map_err(|_| Gone)?;
    assert_eq!(status, expected, "{}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).map_err(|_| Gone)
}

fn place(stage: &Stage, server: &Daemon, may_begin: bool) -> Arc<Place> {
    Arc::new(Place {
        http: client(),
        url: server.url.clone(),
        key: stage.admin_key(),
        may_begin,
    })
}

fn users_at(users: Vec<User>, place: &Arc<Place>) -> Vec<tokio::task::JoinHandle<User>> {
    users
        .into_iter()
        .map(|user| tokio::spawn(user.go_on(Arc::clone(place))))
        .collect()
}

async fn back(tasks: Vec<tokio::task::JoinHandle<User>>) -> Vec<User> {
    let mut users = Vec::new();
    for task in tasks {
        users.push(task.await.expect("a user does not panic"));
    }
    users
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_run_is_lost_and_no_call_is_charged_twice() {
    let stage = Stage::set(&["--thinking-ms", "2"]);
    let mut random = Random(0x0070_6f72_746f_6c61);
    let mut users: Vec<User> = (0..CLIENTS)
        .map(|number| User {
            number,
            begun: 0,
            open: None,
            ended: Vec::new(),
        })
        .collect();
    let agent = stage.write_walker("walker", "");
    let mut sends = 0;
    for life in 0..KILLS {
        let server = stage.serve();
        if life == 0 {
            stage.on(&server, &["agents", "apply", &agent]).expect(0);
        }
        let tasks = users_at(users, &place(&stage, &server, true));
        let until = sends + random.within(&SENDS);
        sends = stage
            .provider
            .get(&format!("/control/sends/{until}"))
            .await
            .as_u64()
            .expect("a count");
        // The moment of death itself; nothing waits for anything here.
        tokio::time::sleep(Duration::from_micros(random.within(&JITTER_US))).await;
        server.kill();
        users = back(tasks).await;
    }
    let server = stage.serve();
    let place = place(&stage, &server, false);
    let users = back(users_at(users, &place)).await;
    judge(&stage, &place, &users).await;
}

async fn judge(stage: &Stage, place: &Place, users: &[User]) {
    let mut acknowledged = BTreeSet::new();
    let mut recoveries = 0;
    for user in users {
        assert!(user.open.is_none(), "{user:?}");
        assert_eq!(user.ended.len(), user.begun);
        for id in &user.ended {
            assert!(acknowledged.insert(id.as_str()), "{id} was made for two requests");
            let Ok(run) = place.get(&format!("/v1/runs/{id}")).await else {
                panic!("the last server does not die");
            };
            let run = &run["run"];
            assert_eq!(run["status"], "succeeded", "{run}");
            assert_eq!(run["output"], serde_json::json!({"notes": 6}), "{run}");
            recoveries += run["recoveries"].as_u64().expect("a count");
            let Ok(events) = place.get(&format!("/v1/runs/{id}/events")).await else {
                panic!("the last server does not die");
            };
            assert_dense(events["data"].as_array().expect("a list"));
        }
    }
    assert!(acknowledged.len() >= CLIENTS, "{} runs", acknowledged.len());
    assert!(
        recoveries >= u64::from(KILLS),
        "the deaths hit: {recoveries} recoveries"
    );
    let keys = assert_charged_once(&stage.sends().await);
    assert_eq!(
        keys,
        acknowledged.len() * 7,
        "each run asks its model seven times, and no other run was made"
    );
}
