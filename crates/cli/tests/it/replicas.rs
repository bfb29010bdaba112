//! Two servers on one Postgres: what one does the other shows, and what one leaves the other finishes.

use crate::support::{Daemon, Stage, assert_charged_once, assert_dense, client};
use portolan_testkit::postgres::Cluster;
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, thread};

/// A stage with two servers that started together on an empty database.
struct Replicas {
    stage: Stage,
    a: Daemon,
    b: Daemon,
    key: String,
    /// It ends last: servers that lose their database while they end would say so.
    _cluster: Cluster,
}

impl Replicas {
    /// The model's reply to the third call is held until it is released.
    fn start() -> Self {
        let cluster = Cluster::start();
        let database = cluster.database();
        let stage = Stage::set(&["--hold-call", "3"]);
        let path = stage.path().join("portolan.toml");
        let config = fs::read_to_string(&path).expect("there");
        fs::write(&path, format!("leaseMs = 900\nsweepMs = 100\n{config}")).expect("written");
        let serve = |name: &str| {
            let (data, log) = (format!("data-{name}"), format!("{name}.log"));
            let arguments = [
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--data",
                &data,
                "--database",
                &database,
            ];
            Daemon::start(stage.path(), &log, &arguments)
        };
        let (a, b) = thread::scope(|scope| {
            let a = scope.spawn(|| serve("a"));
            let b = scope.spawn(|| serve("b"));
            (a.join().expect("starts"), b.join().expect("starts"))
        });
        let keys: Vec<String> = ["data-a", "data-b"]
            .iter()
            .filter_map(|data| fs::read_to_string(stage.path().join(data).join("admin.key")).ok())
            .collect();
        let [key] = keys.as_slice() else {
            panic!("{} admin keys were made", keys.len());
        };
        let key = key.trim().to_owned();
        Self {
            stage,
            a,
            b,
            key,
            _cluster: cluster,
        }
    }

    async fn get(&self, server: &Daemon, path: &str) -> Value {
        let request = client()
            .get(format!("{}{path}", server.url))
            .bearer_auth(&self.key);
        let response = request
            .header("accept", "application/json")
            .send()
            .await
            .expect("an answer");
        let status = response.status();
        let body = response.bytes().await.expect("whole");
        assert!(
            status.is_success(),
            "{status}: {}",
            String::from_utf8_lossy(&body)
        );
        serde_json::from_slice(&body).expect("JSON")
    }

    async fn post(&self, server: &Daemon, path: &str, body: String) -> u16 {
        let request = client()
            .post(format!("{}{path}", server.url))
            .bearer_auth(&self.key);
        let request = request.header("content-type", "application/json").body(body);
        request.send().await.expect("an answer").status().as_u16()
    }

    /// Puts the walker at one server; the other knows it too.
    fn apply(&self, server: &Daemon) {
        let file = self.stage.write_walker("walker", "");
        let mut command = crate::support::portolan(self.stage.path(), &["agents", "apply", &file]);
        command
            .env("PORTOLAN_URL", &server.url)
            .env("PORTOLAN_API_KEY", &self.key);
        crate::support::Ended::of(command).expect(0);
    }

    /// Starts a run that has got as far as the call whose reply is held.
    async fn held_run(&self, server: &Daemon) -> String {
        let run = server.start_run(&self.key).await;
        while self.stage.sends().await.len() < 3 {
            tokio::task::yield_now().await;
        }
        run
    }

    async fn ended(&self, server: &Daemon, run: &str) -> String {
        loop {
            let run = self.get(server, &format!("/v1/runs/{run}?waitMs=20000")).await;
            if run["run"]["finishedAt"].is_string() {
                return run["run"]["status"].as_str().expect("a word").to_owned();
            }
        }
    }

    async fn events(&self, server: &Daemon, run: &str) -> Vec<Value> {
        let events = self.get(server, &format!("/v1/runs/{run}/events")).await;
        events["data"].as_array().expect("a list").clone()
    }
}

/// Follows a run at a server until its stream ends.
async fn tail(url: String, key: String, run: String) -> String {
    let request = client()
        .get(format!("{url}/v1/runs/{run}/events"))
        .bearer_auth(key)
        .header("accept", "text/event-stream");
    request
        .send()
        .await
        .expect("an answer")
        .text()
        .await
        .expect("whole")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_outlives_its_server_and_is_seen_at_the_other() {
    let replicas = Replicas::start();
    replicas.apply(&replicas.b);
    let run = replicas.held_run(&replicas.a).await;
    let (url, key) = (replicas.b.url.clone(), replicas.key.clone());
    let tail = tokio::spawn(tail(url, key, run.clone()));
    replicas.a.signal(Signal::KILL);
    replicas.stage.provider.release().await;
    assert_eq!(replicas.ended(&replicas.b, &run).await, "succeeded");

    let events = replicas.events(&replicas.b, &run).await;
    assert_dense(&events);
    let tailed = tail.await.expect("no panic");
    let ids: Vec<u64> = tailed
        .lines()
        .filter_map(|line| line.strip_prefix("id:")?.trim().parse().ok())
        .collect();
    assert!(
        ids.iter().copied().eq(1..=events.len() as u64),
        "{ids:?} of {}",
        events.len()
    );
    assert_charged_once(&replicas.stage.sends().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_at_one_server_ends_a_run_of_the_other() {
    let replicas = Replicas::start();
    replicas.apply(&replicas.a);
    let run = replicas.held_run(&replicas.b).await;
    let path = format!("/v1/runs/{run}/cancel");
    assert_eq!(replicas.post(&replicas.a, &path, String::new()).await, 202);
    assert_eq!(replicas.ended(&replicas.a, &run).await, "cancelled");
    assert_dense(&replicas.events(&replicas.b, &run).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_drains_leaves_its_run_to_the_other() {
    let replicas = Replicas::start();
    replicas.apply(&replicas.a);
    let run = replicas.held_run(&replicas.a).await;
    replicas.a.signal(Signal::TERM);
    replicas.a.wait_for_log("draining");
    replicas.stage.provider.release().await;
    assert_eq!(replicas.ended(&replicas.b, &run).await, "succeeded");
    let Replicas { stage, a, .. } = replicas;
    let (status, _) = a.wait();
    assert!(status.success(), "{status:?}");
    assert_charged_once(&stage.sends().await);
}
