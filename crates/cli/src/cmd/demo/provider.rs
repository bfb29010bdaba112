//! The scripted provider, a process of its own: it speaks chat completions, honours idempotency keys, keeps a ledger of
//! every send, and holds the reply of one call until it is told that it may answer.

use super::{
    ledger::{Answered, Held, NANO_USD_IN, NANO_USD_OUT, Send},
    script::{self, Conversation},
};
use crate::{Exit, Failure, args::DemoProviderArgs, failure::OrFail as _, screen::Screen};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use portolan_core::time::Clock as _;
use portolan_engine::ambient::SystemClock;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{io::AsyncReadExt as _, net::TcpListener, sync::watch};

/// A whole conversation of the demo is far smaller.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// The reply that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hold {
    /// Nobody has come for it yet.
    Armed,
    /// Its request is here and its answer is charged.
    Holding(Held),
    /// It may go, and so may all others.
    Released,
}

struct Provider {
    hold_call: Option<usize>,
    thinking: Duration,
    hold: watch::Sender<Hold>,
    /// How many sends arrived.
    count: watch::Sender<usize>,
    books: Mutex<Books>,
}

/// What was answered, and to whom.
struct Books {
    sends: Vec<Send>,
    /// Digest of the request and answer, by key.
    answers: HashMap<String, (String, Value)>,
    file: Option<File>,
}

/// Serves until stdin ends, so that it never outlives whoever started it.
pub(super) async fn run(args: DemoProviderArgs, screen: &Screen) -> Result<Exit, Failure> {
    let file = match &args.ledger {
        None => None,
        Some(path) => {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            Some(opened.or_unavailable(|| format!("the ledger {} cannot be written", path.display()))?)
        }
    };
    let provider = Arc::new(Provider {
        hold_call: args.hold_call,
        thinking: Duration::from_millis(args.thinking_ms),
        hold: watch::Sender::new(Hold::Armed),
        count: watch::Sender::new(0),
        books: Mutex::new(Books {
            sends: Vec::new(),
            answers: HashMap::new(),
            file,
        }),
    });
    let router = Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/control/held", get(held))
        .route("/control/release", post(release))
        .route("/control/ledger", get(ledger))
        .route("/control/sends/{at_least}", get(sends))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(provider);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.or_unavailable(|| "no port of loopback can be listened on".to_owned())?;
    let address = listener
        .local_addr()
        .or_unavailable(|| "the port is not known".to_owned())?;
    screen.line(&format!("demo provider is ready on http://{address}"))?;
    tokio::select! {
        served = axum::serve(listener, router) => {
            served.or_unavailable(|| "the provider ended".to_owned())?;
        }
        () = stdin_ends() => {}
    }
    Ok(Exit::Ok)
}

async fn stdin_ends() {
    let mut stdin = tokio::io::stdin();
    let mut nothing = [0_u8; 64];
    while matches!(stdin.read(&mut nothing).await, Ok(read) if read > 0) {}
}

async fn complete(State(provider): State<Arc<Provider>>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return refuse(StatusCode::BAD_REQUEST, "the request is no JSON");
    };
    let key = headers
        .get("idempotency-key")
        .and_then(|value| value.to_str().ok());
    let conversation = Conversation::read(&request);
    let call = conversation.call();
    let (answered, answer) = provider.answer(key, &request, &conversation, &body);
    let Some(answer) = answer else {
        return refuse(
            StatusCode::CONFLICT,
            "this idempotency key belongs to another request",
        );
    };
    if answered == Answered::Charged {
        provider.hold_if_asked(key, call).await;
        tokio::time::sleep(provider.thinking).await;
    }
    Json(answer).into_response()
}

impl Provider {
    /// Answers and enters the send in the books, in one step that nothing comes between.
    fn answer(
        &self,
        key: Option<&str>,
        request: &Value,
        conversation: &Conversation,
        body: &[u8],
    ) -> (Answered, Option<Value>) {
        let digest = blake3::hash(body).to_hex().to_string();
        let mut books = self.books();
        let known = key.and_then(|key| books.answers.get(key)).cloned();
        let (answered, answer, charged) = match known {
            Some((first, answer)) if first == digest => (Answered::FromKey, Some(answer), 0),
            Some(_) => (Answered::Refused, None, 0),
            None => {
                let number = books.sends.len() + 1;
                let (answer, charged) = fresh(request, conversation, body.len(), number);
                if let Some(key) = key {
                    books
                        .answers
                        .insert(key.to_owned(), (digest.clone(), answer.clone()));
                }
                (Answered::Charged, Some(answer), charged)
            }
        };
        let number = books.sends.len() + 1;
        books.enter(Send {
            send: number,
            at: SystemClock::new().now().to_string(),
            key: key.map(str::to_owned),
            call: conversation.call(),
            bytes: body.len(),
            digest,
            answered,
            charged_nano_usd: charged,
        });
        self.count.send_replace(number);
        (answered, answer)
    }

    /// Holds the reply of the chosen call until it may go.
    async fn hold_if_asked(&self, key: Option<&str>, call: usize) {
        if self.hold_call != Some(call) || *self.hold.borrow() != Hold::Armed {
            return;
        }
        let key = key.unwrap_or_default().to_owned();
        self.hold.send_replace(Hold::Holding(Held { key, call }));
        let mut hold = self.hold.subscribe();
        // The sender lives as long as the provider.
        let _ = hold.wait_for(|hold| *hold == Hold::Released).await;
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn enter(&mut self, send: Send) {
        if let Some(file) = &mut self.file
            && let Ok(line) = serde_json::to_string(&send)
            && let Err(error) = writeln!(file, "{line}")
        {
            tracing::warn!(%error, "the ledger could not be written");
            self.file = None;
        }
        self.sends.push(send);
    }
}

/// A fresh answer and what it costs. A token is four bytes here.
fn fresh(request: &Value, conversation: &Conversation, bytes: usize, number: usize) -> (Value, u64) {
    let model = request["model"].as_str().unwrap_or_default();
    let next = script::next(model, conversation);
    let arguments = next.arguments.to_string();
    let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
    let (tokens_in, tokens_out) = (tokens(bytes), tokens(arguments.len() + 16));
    let answer = json!({
        "id": format!("demo-{number}"),
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant",
                "content": null,
                "tool_calls": [{
                    "id": format!("call_{}", conversation.call()),
                    "type": "function",
                    "function": {"name": next.tool, "arguments": arguments},
                }],
            },
            "finish_reason": "tool_calls",
        }],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        },
    });
    (answer, tokens_in * NANO_USD_IN + tokens_out * NANO_USD_OUT)
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (
        status,
        Json(json!({"error": {"message": message, "type": "invalid_request_error"}})),
    )
        .into_response()
}

/// Waits until a reply is held.
async fn held(State(provider): State<Arc<Provider>>) -> Json<Option<Held>> {
    let mut hold = provider.hold.subscribe();
    let seen = hold.wait_for(|hold| *hold != Hold::Armed).await;
    Json(match seen.as_deref() {
        Ok(Hold::Holding(held)) => Some(held.clone()),
        Ok(Hold::Armed | Hold::Released) | Err(_) => None,
    })
}

/// Lets the held reply go.
async fn release(State(provider): State<Arc<Provider>>) -> StatusCode {
    provider.hold.send_replace(Hold::Released);
    StatusCode::NO_CONTENT
}

async fn ledger(State(provider): State<Arc<Provider>>) -> Json<Value> {
    Json(json!({ "sends": provider.books().sends }))
}

/// Waits until that many sends arrived.
async fn sends(State(provider): State<Arc<Provider>>, Path(at_least): Path<usize>) -> Json<usize> {
    let mut count = provider.count.subscribe();
    let seen = count.wait_for(|count| *count >= at_least).await;
    Json(seen.map_or(at_least, |count| *count))
}
