//! What every fault of a provider or of the way to it becomes, against a server that misbehaves as it is told.

mod support;

use portolan_core::{
    call::{Action, Arguments, FinalResult},
    model::{Model, ModelError, ModelFailure, ModelReply},
};
use portolan_router::{BaseUrlPolicy, HttpOptions, ProviderConfig};
use serde_json::json;
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};
use support::{Act, CANARY, JSON, RESULT, Server, answer, ask, header, key, model, model_with, request};

/// One call against one server that does one thing. However it ends, the server saw the request once.
async fn fails(act: Act) -> ModelError {
    fails_within(act, 20_000).await
}

async fn fails_within(act: Act, timeout_ms: u64) -> ModelError {
    let server = Server::start(act);
    let mut config = server.config();
    config.timeout_ms = timeout_ms;
    let error = ask(&config).await.expect_err("a failure");
    assert_eq!(server.requests().len(), 1, "sent again after {error}");
    assert!(!format!("{error} {error:?}").contains(CANARY), "{error}");
    error
}

fn raw(text: &str) -> Act {
    Act::Send(text.as_bytes().to_vec())
}

fn is_the_result(reply: &ModelReply) {
    let value = Arguments::Json(json!({"sum": 3}));
    let id = Some("c".to_owned());
    assert_eq!(reply.action, Action::Final(FinalResult { id, value }));
}

#[tokio::test]
async fn each_status_says_whether_to_come_back() {
    let body = r#"{"error":{"message":"told so","type":"t","param":null,"code":null}}"#;
    for (status, failure) in [
        ("400 Bad Request", ModelFailure::Refused),
        ("401 Unauthorized", ModelFailure::Account),
        ("402 Payment Required", ModelFailure::Account),
        ("403 Forbidden", ModelFailure::Account),
        ("404 Not Found", ModelFailure::Refused),
        ("408 Request Timeout", ModelFailure::InDoubt),
        ("409 Conflict", ModelFailure::Refused),
        ("422 Unprocessable Entity", ModelFailure::Refused),
        ("429 Too Many Requests", ModelFailure::RateLimited),
        ("500 Internal Server Error", ModelFailure::Overloaded),
        ("502 Bad Gateway", ModelFailure::InDoubt),
        ("503 Service Unavailable", ModelFailure::Overloaded),
        ("504 Gateway Timeout", ModelFailure::InDoubt),
        ("529 Overloaded", ModelFailure::Overloaded),
    ] {
        let error = fails(answer(status, &[JSON], body)).await;
        assert_eq!(error.failure, failure, "{status}");
        assert_eq!(error.retry_after_ms, None);
        let code = &status[..3];
        assert!(
            error
                .message
                .starts_with(&format!("provider local: it answered {code}")),
            "{error}"
        );
        assert!(error.message.ends_with(": told so"), "{error}");
    }
}

#[tokio::test]
async fn both_forms_of_retry_after_are_read() {
    let date = "Wed, 21 Oct 2026 07:28:00 GMT";
    for (headers, expected) in [
        (vec!["Retry-After: 17".to_owned()], 17_000),
        (
            vec![
                format!("Retry-After: {date}"),
                "Date: Wed, 21 Oct 2026 07:27:57 GMT".to_owned(),
            ],
            3_000,
        ),
        (vec![format!("Retry-After: {date}")], 10_000),
    ] {
        let lines: Vec<&str> = headers.iter().map(String::as_str).collect();
        for status in ["429 Too Many Requests", "503 Service Unavailable"] {
            let error = fails(answer(status, &lines, "")).await;
            assert_eq!(error.retry_after_ms, Some(expected), "{status} {headers:?}");
        }
    }
}

#[tokio::test]
async fn a_cut_after_the_request_was_sent_is_in_doubt() {
    let json_head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    for act in [
        raw(""),
        raw("HTTP/1.1 200"),
        raw("nonsense\r\n\r\n"),
        raw(&format!("{json_head}Content-Length: 9000\r\n\r\n{{\"id\":")),
        raw(&format!(
            "{json_head}Transfer-Encoding: chunked\r\n\r\n7\r\n{{\"id\":\r\n"
        )),
        raw(&format!("{json_head}Connection: close\r\n\r\n{{\"id\":")),
    ] {
        assert_eq!(fails(act).await.failure, ModelFailure::InDoubt);
    }
}

#[tokio::test]
async fn a_provider_that_does_not_answer_in_time_is_in_doubt() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n{";
    for begun in ["", head] {
        let error = fails_within(Act::SendAndHang(begun.as_bytes().to_vec()), 300).await;
        assert_eq!(error.failure, ModelFailure::InDoubt);
        assert!(error.message.contains("did not answer in time"), "{error}");
    }
}

#[tokio::test]
async fn a_status_stands_even_if_its_explanation_does_not_arrive() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nContent-Length: 900\r\n\r\n{\"error\":";
    let cut = fails(raw(head)).await;
    assert_eq!(
        (cut.failure, cut.retry_after_ms),
        (ModelFailure::RateLimited, Some(5_000))
    );
    let late = fails_within(Act::SendAndHang(head.as_bytes().to_vec()), 300).await;
    assert_eq!(late.failure, ModelFailure::RateLimited);
}

#[tokio::test]
async fn nothing_listening_means_that_nothing_was_sent() {
    let server = Server::start(raw(""));
    let config = server.config();
    assert!(server.requests().is_empty());
    let error = ask(&config).await.expect_err("nobody listens there");
    assert_eq!(error.failure, ModelFailure::NotSent);
    assert!(!error.message.contains("127.0.0.1:"), "a URL in {error}");
}

#[tokio::test]
async fn a_complete_answer_that_is_no_answer_is_malformed() {
    let html = "Content-Type: text/html";
    for act in [
        answer("200 OK", &[html], "<html>login</html>"),
        answer("200 OK", &[html], RESULT),
        answer("200 OK", &[], RESULT),
        answer("200 OK", &["Content-Type: text/event-stream"], "data: {}\n\n"),
        answer("200 OK", &[JSON], ""),
        answer("200 OK", &[JSON], "{\"id\":"),
        answer("200 OK", &[JSON], "{}"),
        answer(
            "200 OK",
            &[JSON],
            r#"{"error":{"message":"overloaded","code":529}}"#,
        ),
        answer("204 No Content", &[], ""),
    ] {
        assert_eq!(fails(act).await.failure, ModelFailure::Malformed);
    }
}

#[tokio::test]
async fn a_redirect_is_refused_and_the_key_goes_nowhere_else() {
    for status in [
        "301 Moved Permanently",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let elsewhere = Server::start(answer("200 OK", &[JSON], RESULT));
        let location = format!("Location: {}/chat/completions", elsewhere.url());
        let error = fails(answer(status, &[&location], "")).await;
        assert_eq!(error.failure, ModelFailure::Refused);
        assert!(error.message.contains("redirects are not followed"), "{error}");
        assert!(elsewhere.requests().is_empty(), "{status} was followed");
    }
}

/// The server's thread ends once the connection is closed, which happens on the runtime's own thread here.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_endless_answer_is_cut_off() {
    let head = |status: &str| {
        let head = format!("HTTP/1.1 {status}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n");
        Act::SendForever(head.into_bytes())
    };
    let error = fails(head("200 OK")).await;
    assert_eq!(error.failure, ModelFailure::Malformed);
    assert!(error.message.contains("larger answer"), "{error}");
    assert_eq!(
        fails(head("500 Internal Server Error")).await.failure,
        ModelFailure::Overloaded
    );
    let lie = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{}";
    assert_eq!(fails(raw(lie)).await.failure, ModelFailure::InDoubt);
}

#[tokio::test]
async fn what_a_call_sends_is_what_was_configured() {
    let server = Server::start(answer("200 OK", &[JSON], RESULT));
    let mut config = server.config().with_base_url(format!("{}/", server.url()));
    config
        .headers
        .push(("X-Title".into(), portolan_router::Secret::new("tests")));
    let model = model(&config);
    is_the_result(&model.call(Some(&key()), request("add")).await.expect("a reply"));
    is_the_result(&model.call(None, request("add")).await.expect("a reply"));
    let requests = server.requests();
    let [with_key, without_key] = requests.as_slice() else {
        panic!("{} requests", requests.len());
    };
    assert!(
        with_key.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{with_key}"
    );
    assert_eq!(
        header(with_key, "idempotency-key"),
        Some("run_07070707070707070707070707070707:llm-3:2")
    );
    assert_eq!(header(without_key, "idempotency-key"), None);
    for sent in [with_key, without_key] {
        assert_eq!(
            header(sent, "authorization"),
            Some(format!("Bearer {CANARY}").as_str())
        );
        assert_eq!(header(sent, "x-title"), Some("tests"));
        assert_eq!(header(sent, "content-type"), Some("application/json"));
        let (_, body) = sent.split_once("\r\n\r\n").expect("a body");
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["model"], "gpt-4.1-mini");
    }
}

#[tokio::test]
async fn keys_are_honoured_only_where_the_configuration_says_so() {
    let mut config = ProviderConfig::custom("local", "http://127.0.0.1:1/v1");
    assert!(!model(&config).honours_idempotency_keys());
    config.honours_idempotency_keys = true;
    assert!(model(&config).honours_idempotency_keys());
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_removed() {
    let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {CANARY}.\u001b[2J"}}}}"#);
    let server = Server::start(answer("401 Unauthorized", &[JSON], &body));
    let config = server.config();
    let model = model(&config);
    let error = model.call(None, request("add")).await.expect_err("a bad key");
    assert_eq!(
        error.message,
        "provider local: it answered 401 Unauthorized: Incorrect API key provided: [redacted].\\u{1b}[2J"
    );
    assert!(!format!("{error:?} {model:?} {config:?}").contains(CANARY));
    drop(server.requests());
}

#[tokio::test]
async fn a_configured_proxy_is_used() {
    let proxy = Server::start(answer("200 OK", &[JSON], RESULT));
    let options = HttpOptions {
        policy: BaseUrlPolicy::PublicOnly,
        proxy: Some(proxy.url()),
        ..HttpOptions::default()
    };
    let config = ProviderConfig::custom("far", "http://provider.invalid/v1");
    is_the_result(
        &model_with(options, &config)
            .call(None, request("add"))
            .await
            .expect("a reply"),
    );
    let requests = proxy.requests();
    assert!(
        requests[0].starts_with("POST http://provider.invalid/v1/chat/completions "),
        "{}",
        requests[0]
    );
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls on this thread, as the blocking driver does.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_plain_thread_needs_no_runtime() {
    let server = Server::start(answer("200 OK", &[JSON], RESULT));
    let model = model(&server.config());
    for _ in 0..2 {
        is_the_result(&block_on(model.call(Some(&key()), request("add"))).expect("a reply"));
    }
    assert_eq!(server.requests().len(), 2);
    let error = block_on(model.call(None, request("add"))).expect_err("nobody listens any more");
    assert_eq!(error.failure, ModelFailure::NotSent);
    // The client's own runtime ends here, inside another one, without waiting and without a panic.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async move { drop(model) });
}

#[test]
fn a_blocking_wait_inside_of_a_runtime_is_refused_instead_of_hanging() {
    let server = Server::start(answer("200 OK", &[JSON], RESULT));
    let model = model(&server.config());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let error = runtime.block_on(async {
        let _waiting = portolan_core::blocking::Waiting::here();
        block_on(model.call(None, request("add"))).expect_err("refused")
    });
    assert_eq!(error.failure, ModelFailure::NotSent);
    assert!(error.message.contains("run_async"), "{}", error.message);
    assert!(server.requests().is_empty());
}

#[test]
fn a_dropped_call_is_abandoned() {
    let server = Server::start(Act::SendAndHang(Vec::new()));
    let model = model(&server.config());
    let mut call = model.call(None, request("add"));
    let waker = Waker::noop();
    assert!(call.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    drop(call);
    // Nobody waits for the configured 20 seconds: the client ends with the model.
    drop(model);
    assert!(server.requests().len() <= 1);
}

#[test]
fn one_client_serves_callers_with_and_without_a_runtime() {
    let server = Server::start(answer("200 OK", &[JSON], RESULT));
    let model = model(&server.config());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for _ in 0..2 {
        let within = runtime.block_on(model.call(None, request("add")));
        is_the_result(&within.expect("a reply"));
        let without = block_on(model.call(None, request("add")));
        is_the_result(&without.expect("a reply"));
    }
    // The connections of a runtime that has ended are not used again.
    drop(runtime);
    is_the_result(&block_on(model.call(None, request("add"))).expect("a reply"));
    assert_eq!(server.requests().len(), 5);
}
