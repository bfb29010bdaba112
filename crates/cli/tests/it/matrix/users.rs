//! The users of a case: they repeat what was not answered, follow every run, cancel one, and know only what they were told.

use super::{
    case::Case,
    provider::{Provider, SILENCE},
    server::Supervisor,
};
use crate::{
    crowd::{Address, Reader, Witness},
    support::{Ended, client, portolan},
};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

/// Between two tries of what was not answered.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs that go all the way.
const RUNS: usize = 4;

const AGENT: &str = r#"
name = "everything"
model = "demo/everything"
task = "Do everything."
tools = ["editor", { shell = { commands = { mark = ["/bin/sh", "-c"] } } }]
resultSchema = { type = "object", required = ["notes"], properties = { notes = { type = "integer" } } }
retries = { initialMs = 20 }
[workspace]
kind = "directory"
allow = ["list", "read", "create", "edit", "execute"]
[runtime]
isolation = "none"
"#;

#[derive(Debug, Clone)]
pub(super) struct Users {
    folder: PathBuf,
    http: Client,
    servers: watch::Receiver<Option<Address>>,
    provider: Arc<Provider>,
    case: Case,
}

/// What was seen of a run.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) run: Value,
    pub(super) events: Vec<Value>,
    /// The last event of the reader that followed it.
    pub(super) read: u64,
    pub(super) is_silent: bool,
}

/// What users saw in the end.
#[derive(Debug)]
pub(super) struct History {
    pub(super) runs: Vec<Seen>,
    /// All runs that there are.
    pub(super) listed: Vec<Value>,
}

impl Users {
    pub(super) fn new(
        folder: &Path,
        servers: watch::Receiver<Option<Address>>,
        provider: Arc<Provider>,
        case: Case,
    ) -> Self {
        Self {
            folder: folder.to_owned(),
            http: client(),
            servers,
            provider,
            case,
        }
    }

    async fn server(&mut self) -> Address {
        let there = self.servers.wait_for(Option::is_some).await;
        let there = there.expect("there is a next life");
        there.clone().expect("it was waited for")
    }

    pub(super) async fn apply_agent(&mut self) {
        fs::write(self.folder.join("everything.toml"), AGENT).expect("written");
        loop {
            let server = self.server().await;
            let mut command = portolan(&self.folder, &["agents", "apply", "everything.toml"]);
            command
                .env("PORTOLAN_URL", format!("http://{}", server.socket))
                .env("PORTOLAN_API_KEY", &server.key);
            let ended = tokio::task::spawn_blocking(move || Ended::of(command)).await;
            let ended = ended.expect("no panic");
            match ended.code {
                Some(0) => return,
                Some(2) => panic!("the agent is refused: {ended:?}"),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Asks until there is an answer with one of these statuses.
    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<Value>,
        good: &[u16],
    ) -> (u16, Value) {
        loop {
            let server = self.server().await;
            let url = format!("http://{}{path}", server.socket);
            let mut request = self.http.request(method.clone(), url).bearer_auth(&server.key);
            request = request
                .header("accept", "application/json")
                .timeout(Duration::from_secs(10));
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            if let Some(body) = &body {
                request = request
                    .header("content-type", "application/json")
                    .body(body.to_string());
            }
            if let Ok(response) = request.send().await {
                let status = response.status().as_u16();
                if let Ok(body) = response.bytes().await {
                    if good.contains(&status) {
                        return (status, serde_json::from_slice(&body).expect("JSON"));
                    }
                    let text = String::from_utf8_lossy(&body);
                    assert!(status >= 500, "{status} of {path}: {text}");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn begin(&mut self, name: &str, input: &str) -> String {
        let body = json!({"agentName": "everything", "input": input});
        let (_, made) = self
            .ask(Method::POST, "/v1/runs", Some(name), Some(body), &[201])
            .await;
        made["run"]["id"].as_str().expect("an id").to_owned()
    }

    /// Does everything, and looks at everything once it has ended.
    pub(super) async fn live_through(&mut self, supervisor: &Supervisor) -> History {
        let witness = Arc::new(Witness::default());
        let silent = self.begin("silent", SILENCE).await;
        let mut ids = vec![silent.clone()];
        let mut readers = vec![self.follow(&silent, &witness)];
        for number in 0..RUNS {
            let name = format!("run-{number}");
            let id = self.begin(&name, &name).await;
            assert_eq!(self.begin(&name, &name).await, id, "a key is one run");
            readers.push(self.follow(&id, &witness));
            ids.push(id);
        }
        let mut asked = self.provider.asked.subscribe();
        asked.wait_for(|asked| *asked).await.expect("the provider lives");
        if self.case.needs_heritage() {
            supervisor.kill();
        }
        while self.case.needs_patience() && !supervisor.has_fired() {
            tokio::time::sleep(PAUSE).await;
        }
        let path = format!("/v1/runs/{silent}/cancel");
        self.ask(Method::POST, &path, None, None, &[202, 409]).await;
        let mut read = Vec::new();
        for reader in readers {
            read.push(reader.await.expect("a reader sees nothing wrong"));
        }
        let mut runs = Vec::new();
        for (id, read) in ids.iter().zip(read) {
            let (_, run) = self
                .ask(Method::GET, &format!("/v1/runs/{id}"), None, None, &[200])
                .await;
            let path = format!("/v1/runs/{id}/events");
            let (_, events) = self.ask(Method::GET, &path, None, None, &[200]).await;
            runs.push(Seen {
                run: run["run"].clone(),
                events: events["data"].as_array().expect("a list").clone(),
                read,
                is_silent: *id == silent,
            });
        }
        let (_, listed) = self
            .ask(Method::GET, "/v1/runs?limit=100", None, None, &[200])
            .await;
        History {
            runs,
            listed: listed["data"].as_array().expect("a list").clone(),
        }
    }

    /// Follows a run to its end, wherever the server is.
    fn follow(&self, run: &str, witness: &Arc<Witness>) -> tokio::task::JoinHandle<u64> {
        let mut reader = Reader::new(run, witness);
        let mut users = self.clone();
        tokio::spawn(async move {
            while !reader.ended {
                let server = users.server().await;
                let end = reader.connect(&server, None).await;
                end.unwrap_or_else(|wrong| panic!("{wrong}"));
                if !reader.ended {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            reader.after
        })
    }
}
