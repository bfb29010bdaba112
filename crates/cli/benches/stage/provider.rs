//! A provider in the process of the benchmark: it speaks chat completions, takes its time for every answer, honours
//! idempotency keys and counts what it really did. It outlives the server, as a provider does.

use crate::Failure;
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use portolan_core::RESULT_TOOL;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch};

/// A provider whose conversations take so many calls, each of which takes so long.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) url: String,
    books: Arc<Books>,
}

#[derive(Debug)]
struct Books {
    calls: usize,
    thinking: Duration,
    /// Answers by key: made once, given as often as they are asked for. The value tells when it may go.
    answers: Mutex<HashMap<String, watch::Receiver<Option<Value>>>>,
    executed: Mutex<Executed>,
}

/// What the provider did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Executed {
    /// Calls that were executed: each key once.
    pub(crate) calls: usize,
    /// Sends that found their key executed or in execution.
    pub(crate) repeated_sends: usize,
    /// Sends without a key.
    pub(crate) keyless: usize,
}

impl Provider {
    pub(crate) async fn start(calls: usize, thinking: Duration) -> Result<Self, Failure> {
        let books = Arc::new(Books {
            calls,
            thinking,
            answers: Mutex::default(),
            executed: Mutex::default(),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .with_state(Arc::clone(&books));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, books })
    }

    pub(crate) fn executed(&self) -> Executed {
        *self.books.executed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn complete(State(books): State<Arc<Books>>, headers: HeaderMap, body: Bytes) -> Response {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(key) = key else {
        books
            .executed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keyless += 1;
        return StatusCode::BAD_REQUEST.into_response();
    };
    let mut ready = books.execute(key, &request);
    // The sender is dropped only after it has answered.
    match ready.wait_for(Option::is_some).await {
        Ok(answer) => Json((*answer).clone()).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

impl Books {
    /// Begins an execution, or finds the one of this key. It goes on when its caller is gone.
    fn execute(self: &Arc<Self>, key: &str, request: &Value) -> watch::Receiver<Option<Value>> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut executed = self.executed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = answers.get(key) {
            executed.repeated_sends += 1;
            return known.clone();
        }
        executed.calls += 1;
        let (done, ready) = watch::channel(None);
        answers.insert(key.to_owned(), ready.clone());
        let (answer, thinking) = (answer(request, self.calls), self.thinking);
        tokio::spawn(async move {
            tokio::time::sleep(thinking).await;
            done.send_replace(Some(answer));
        });
        ready
    }
}

/// Reads a document until the last call, which ends the conversation.
fn answer(request: &Value, calls: usize) -> Value {
    let messages = request["messages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let answered = messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    let (name, arguments) = match answered + 1 >= calls {
        true => (RESULT_TOOL, json!({"text": "f".repeat(1_000)})),
        false => (
            "resource_docs",
            json!({"operation": "read", "arguments": {"path": "a.txt"}}),
        ),
    };
    let call = json!({
        "id": format!("call-{answered}"), "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()},
    });
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    json!({
        "id": format!("answer-{answered}"), "object": "chat.completion", "created": 0, "model": "bench",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    })
}
