//! What the system tests share: a request, a clock, and a server that answers as it is told.

#![expect(
    clippy::disallowed_methods,
    reason = "a test server listens on loopback and runs on a thread"
)]
#![allow(dead_code, reason = "each test binary uses its part")]

use portolan_core::{
    Fut,
    ids::{Attempt, ExecutionId, IdempotencyKey, RunId, StepId},
    model::{Model, ModelError, ModelReply, ModelRequest},
    time::{Clock, Timestamp},
    tool::ToolSpec,
};
use portolan_router::{ChatCompletionsModel, HttpClient, HttpOptions, ProviderConfig};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, LazyLock},
    thread::JoinHandle,
};

/// A secret that must not turn up anywhere.
pub(crate) const CANARY: &str = "sk-canary-7f3a9c";

/// Stands at 2026-10-21T07:27:50Z.
#[derive(Debug)]
pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        "2026-10-21T07:27:50Z".parse().expect("a moment")
    }

    fn monotonic_us(&self) -> u64 {
        0
    }

    fn sleep_ms(&self, _ms: u64) -> Fut<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

pub(crate) fn key() -> IdempotencyKey {
    IdempotencyKey::new(RunId::from_bytes([7; 16]), StepId::llm(3), Attempt(2))
}

static SCHEMA: LazyLock<Value> = LazyLock::new(
    || json!({"type": "object", "properties": {"sum": {"type": "integer"}, "note": {"type": "string"}}, "required": ["sum"]}),
);

static TOOLS: LazyLock<Vec<ToolSpec>> = LazyLock::new(|| {
    vec![ToolSpec {
        name: "add".into(),
        description: "Adds two numbers.".into(),
        input_schema: json!({
            "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"],
        }),
    }]
});

pub(crate) fn request(task: &'static str) -> ModelRequest<'static> {
    ModelRequest {
        execution_id: ExecutionId::from_bytes([7; 16]),
        task,
        context: &Value::Null,
        instructions: &[],
        tools: &TOOLS,
        result_schema: &SCHEMA,
        history: &[],
        max_output_tokens: None,
    }
}

pub(crate) fn model(config: &ProviderConfig) -> ChatCompletionsModel {
    model_with(HttpOptions::default(), config)
}

pub(crate) fn model_with(options: HttpOptions, config: &ProviderConfig) -> ChatCompletionsModel {
    let http = HttpClient::new(options).expect("a client");
    ChatCompletionsModel::new(&http, Arc::new(FixedClock), config, "gpt-4.1-mini").expect("a model")
}

/// One call with a key, inside the runtime of the test.
pub(crate) async fn ask(config: &ProviderConfig) -> Result<ModelReply, ModelError> {
    model(config).call(Some(&key()), request("add 1 and 2")).await
}

/// What a server does with a request that it has read.
#[derive(Clone)]
pub(crate) enum Act {
    /// Sends these bytes and closes.
    Send(Vec<u8>),
    /// Sends these bytes and then nothing, without closing.
    SendAndHang(Vec<u8>),
    /// Sends these bytes and then one chunk after the other until nobody reads any more.
    SendForever(Vec<u8>),
}

/// A server on loopback that does the same for every request and keeps what it was sent.
pub(crate) struct Server {
    address: SocketAddr,
    thread: JoinHandle<Vec<String>>,
}

const STOP: &str = "STOP";

impl Server {
    pub(crate) fn start(act: Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let thread = std::thread::spawn(move || serve(&listener, &act));
        Self { address, thread }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn config(&self) -> ProviderConfig {
        let mut config = ProviderConfig::custom("local", self.url()).with_api_key(CANARY.to_owned());
        config.timeout_ms = 20_000;
        config
    }

    /// Stops the server and gives every request that reached it.
    pub(crate) fn requests(self) -> Vec<String> {
        let mut stream = TcpStream::connect(self.address).expect("the server still listens");
        stream.write_all(STOP.as_bytes()).expect("the server still reads");
        self.thread.join().expect("the server did not panic")
    }
}

fn serve(listener: &TcpListener, act: &Act) -> Vec<String> {
    let mut requests = Vec::new();
    let mut hanging = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().expect("a connection");
        let request = read_request(&mut stream);
        if request == STOP {
            return requests;
        }
        requests.push(request);
        // A client that gave up is what some tests are about, so a failed write ends the answer and nothing else.
        match act {
            Act::Send(bytes) => _ = stream.write_all(bytes),
            Act::SendAndHang(bytes) => {
                let _gone = stream.write_all(bytes);
                hanging.push(stream);
            }
            Act::SendForever(bytes) => {
                let mut sent = stream.write_all(bytes);
                let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x1_0000));
                while sent.is_ok() {
                    sent = stream.write_all(chunk.as_bytes());
                }
            }
        }
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).unwrap_or(0);
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = header(head, "content-length").and_then(|length| length.parse().ok());
            body.len() >= length.unwrap_or(0)
        });
        if whole || count == 0 || text == STOP {
            return text;
        }
    }
}

/// A header of a raw request.
pub(crate) fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let head = request.split("\r\n\r\n").next()?;
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A whole answer.
pub(crate) fn answer(status: &str, headers: &[&str], body: &str) -> Act {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    Act::Send(
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
            .into_bytes(),
    )
}

pub(crate) const JSON: &str = "Content-Type: application/json";

/// A completion that submits the result.
pub(crate) const RESULT: &str = r#"{"id":"r","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"final_result","arguments":"{\"sum\":3,\"note\":null}"}}]}}]}"#;
