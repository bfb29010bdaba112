//! The provider of a case: it outlives every server, honours keys, keeps a ledger, and plays a script with everything in it.
//!
//! The script: a batch of three tools; a definite failure and its retry; a command that may run once; a result that is refused;
//! a result. A run whose input says so gets no answer to its first question.

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// What the input of a run says whose first question gets no answer.
pub(super) const SILENCE: &str = "no-answer-please";

/// Long enough for a request to be on its way before its answer is.
const THINKING: Duration = Duration::from_millis(30);

#[derive(Debug)]
pub(super) struct Provider {
    pub(super) url: String,
    ledger: Mutex<Ledger>,
    /// Whether the question of the silent run is here.
    pub(super) asked: watch::Sender<bool>,
    marks: String,
}

#[derive(Debug, Default)]
struct Ledger {
    /// By key: the request, the answer, how often it came.
    calls: HashMap<String, (Bytes, Value, u32)>,
    wrong: Vec<String>,
    task: Option<JoinHandle<()>>,
}

impl Provider {
    pub(super) async fn start(folder: &Path) -> Arc<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let provider = Arc::new(Self {
            url: format!("http://{address}"),
            ledger: Mutex::default(),
            asked: watch::Sender::new(false),
            marks: folder.join("marks").display().to_string(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .with_state(Arc::clone(&provider));
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        provider.ledger.lock().expect("no panic").task = Some(task);
        provider
    }

    /// Keys with how often each came and whether it was charged, and what was wrong.
    pub(super) fn books(&self) -> (HashMap<String, (u32, bool)>, Vec<String>) {
        let ledger = self.ledger.lock().expect("no panic");
        let calls = ledger.calls.iter();
        let calls = calls.map(|(key, (_, answer, count))| (key.clone(), (*count, !answer.is_null())));
        (calls.collect(), ledger.wrong.clone())
    }

    fn enter(&self, key: &str, body: &Bytes) -> Value {
        let mut ledger = self.ledger.lock().expect("no panic");
        let mut count = 1;
        if let Some((first, answer, known)) = ledger.calls.get_mut(key) {
            *known += 1;
            count = *known;
            let (answer, is_same) = (answer.clone(), first == body);
            if !is_same {
                ledger.wrong.push(format!("{key} came with another request"));
            }
            if !answer.is_null() {
                return answer;
            }
        }
        let request = serde_json::from_slice(body).expect("JSON");
        let answer = self.answer(key, &request, count > 1);
        let entry = (body.clone(), answer.clone(), count);
        ledger.calls.insert(key.to_owned(), entry);
        answer
    }

    /// The next move; null is a definite failure, which costs nothing and which the key does not keep.
    fn answer(&self, key: &str, request: &Value, is_repeated: bool) -> Value {
        let run = key.split(':').next().unwrap_or_default();
        let messages = request["messages"].as_array().into_iter().flatten();
        let turns = messages.filter(|message| message["role"] == "assistant").count();
        let mark =
            |name: &str| json!({"command": "mark", "args": [format!("echo {run}:{name} >> {}", self.marks)]});
        let calls = match turns {
            0 => vec![
                (
                    "editor",
                    json!({"operation": "write", "path": "a.txt", "content": "a\n"}),
                ),
                ("shell", mark("batch")),
                ("editor", json!({"operation": "list", "path": "."})),
            ],
            1 if key.ends_with(":1") && !is_repeated => return Value::Null,
            1 => vec![("shell", mark("alone"))],
            2 => vec![("final_result", json!({"notes": "many"}))],
            _ => vec![("final_result", json!({"notes": 2}))],
        };
        let calls: Vec<Value> = calls
            .into_iter()
            .enumerate()
            .map(|(place, (name, arguments))| {
                let function = json!({"name": name, "arguments": arguments.to_string()});
                json!({"id": format!("call-{turns}-{place}"), "type": "function", "function": function})
            })
            .collect();
        json!({
            "id": "m", "object": "chat.completion", "created": 0, "model": request["model"],
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": null, "tool_calls": calls},
                "finish_reason": "tool_calls",
            }],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if let Ok(ledger) = self.ledger.get_mut()
            && let Some(task) = ledger.task.take()
        {
            task.abort();
        }
    }
}

async fn complete(State(provider): State<Arc<Provider>>, headers: HeaderMap, body: Bytes) -> Response {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let Some(key) = key else {
        let mut ledger = provider.ledger.lock().expect("no panic");
        ledger.wrong.push("a call came without a key".to_owned());
        return StatusCode::BAD_REQUEST.into_response();
    };
    let answer = provider.enter(key, &body);
    if String::from_utf8_lossy(&body).contains(SILENCE) {
        provider.asked.send_replace(true);
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(THINKING).await;
    if answer.is_null() {
        let error = json!({"error": {"message": "come again", "type": "overloaded"}});
        return (StatusCode::SERVICE_UNAVAILABLE, axum::Json(error)).into_response();
    }
    axum::Json(answer).into_response()
}
