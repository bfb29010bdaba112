//! The adapter against a fake provider that others wrote: `@copilotkit/aimock`, pinned in `tests/fake-llm`.
//!
//! `cargo xtask test` installs it, sets `PORTOLAN_FAKE_LLM` to its `node_modules`, and turns the feature
//! `fake-llm-server` on that these tests are built with.

mod support;

use portolan_core::{
    call::{Action, Arguments, Exchange, FinalResult, Observation, ToolCall, Turn},
    model::{Model, ModelError, ModelFailure, ModelReply, ModelRequest},
    usage::TokenUsage,
};
use portolan_router::{Preset, ProviderConfig, Secret};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};
use support::{CANARY, key, model, request};

/// A running fake, ended with the test.
struct Aimock {
    child: Child,
    /// Kept open, so that the fake can always write its log.
    _stdout: BufReader<ChildStdout>,
    origin: String,
}

impl Aimock {
    #[expect(clippy::disallowed_methods, reason = "a test starts its fake server")]
    fn start() -> Self {
        let modules = std::env::var_os("PORTOLAN_FAKE_LLM").map(PathBuf::from).expect(
            "PORTOLAN_FAKE_LLM is not set: run `cargo xtask test`, which installs the fake LLM server and sets it",
        );
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut child = Command::new("node")
            .arg(modules.join("@copilotkit/aimock/dist/cli.js"))
            .args(["--port", "0", "--strict", "--fixtures"])
            .arg(here.join("tests/aimock/fixtures.json"))
            .env("AIMOCK_API_KEYS", CANARY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts: `cargo xtask test` says what to install when it is missing");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut said = String::new();
        let origin = loop {
            let before = said.len();
            stdout.read_line(&mut said).expect("the fake's log is text");
            assert!(
                said.len() > before,
                "the fake ended without listening; it said:\n{said}"
            );
            if let Some((_, address)) = said[before..].split_once("listening on ") {
                break address.trim().to_owned();
            }
        };
        Self {
            child,
            _stdout: stdout,
            origin,
        }
    }

    fn openai(&self) -> ProviderConfig {
        ProviderConfig::preset(Preset::OpenAi)
            .with_base_url(format!("{}/v1", self.origin))
            .with_api_key(CANARY.to_owned())
    }

    fn openrouter(&self) -> ProviderConfig {
        ProviderConfig::preset(Preset::OpenRouter)
            .with_base_url(format!("{}/api/v1", self.origin))
            .with_api_key(CANARY.to_owned())
    }

    /// What the fake says it was asked.
    async fn requests(&self) -> Vec<Value> {
        let url = format!("{}/v1/_requests", self.origin);
        let sent = reqwest::Client::new().get(url).bearer_auth(CANARY).send().await;
        let bytes = sent.expect("an answer").bytes().await.expect("a body");
        serde_json::from_slice(&bytes).expect("a list of requests")
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

async fn ask(config: &ProviderConfig, task: &'static str) -> Result<ModelReply, ModelError> {
    model(config).call(Some(&key()), request(task)).await
}

async fn fails(config: &ProviderConfig, task: &'static str) -> ModelError {
    let error = ask(config, task).await.expect_err("a failure");
    assert!(!format!("{error} {error:?}").contains(CANARY), "{error}");
    error
}

#[tokio::test]
async fn a_task_goes_from_the_first_call_to_the_result() {
    let fake = Aimock::start();
    let model = model(&fake.openai());
    let first = model
        .call(Some(&key()), request("add 1 and 2"))
        .await
        .expect("a call");
    let raw = "{ \"a\": 1,\n  \"b\": 2 }";
    let call = ToolCall {
        id: "call_add".into(),
        name: "add".into(),
        arguments: Arguments::Json(json!({"a": 1, "b": 2})),
    };
    assert_eq!(first.action, Action::Call(call.clone()));
    assert_eq!(first.text.as_deref(), Some("Adding."));
    assert_eq!(first.model.as_deref(), Some("gpt-4.1-mini"));
    assert_eq!(
        first.usage.map(|usage| (usage.tokens_in, usage.tokens_out)),
        Some((120, 15))
    );
    assert!(first.provider_id.is_some_and(|id| id.starts_with("chatcmpl-")));

    let history = [Turn {
        text: first.text,
        echo: first.echo,
        exchanges: vec![Exchange {
            call,
            observation: Observation::Output(json!(3)),
        }],
    }];
    let next = ModelRequest {
        history: &history,
        max_output_tokens: Some(64),
        ..request("add 1 and 2")
    };
    let last = model.call(Some(&key()), next).await.expect("a result");
    // The note that strictness made null is gone again.
    let value = Arguments::Json(json!({"sum": 3}));
    let id = Some("call_end".to_owned());
    assert_eq!(last.action, Action::Final(FinalResult { id, value }));

    let requests = fake.requests().await;
    assert_eq!(requests.len(), 2, "{requests:#?}");
    for sent in &requests {
        assert_eq!(sent["path"], "/v1/chat/completions");
        assert_eq!(sent["headers"]["idempotency-key"], key().as_str());
        let tools = &sent["body"]["tools"];
        assert_eq!(tools[0]["function"]["name"], "add");
        assert_eq!(tools[1]["function"]["name"], "final_result");
        assert_eq!(tools[1]["function"]["strict"], true);
        assert_eq!(sent["body"]["tool_choice"], "required");
    }
    let messages = &requests[1]["body"]["messages"];
    assert_eq!(messages[1]["tool_calls"][0]["function"]["arguments"], raw);
    assert_eq!(
        messages[2],
        json!({"role": "tool", "tool_call_id": "call_add", "content": "3"})
    );
    assert_eq!(requests[1]["body"]["max_completion_tokens"], 64);
}

#[tokio::test]
async fn several_calls_text_and_a_cut_are_told_apart() {
    let fake = Aimock::start();
    let Action::Batch(batch) = ask(&fake.openai(), "two at once").await.expect("calls").action else {
        panic!("no batch");
    };
    let seen: Vec<_> = batch
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str()))
        .collect();
    assert_eq!(seen, [("call_a", "add"), ("call_b", "final_result")]);

    let Action::Final(cut) = ask(&fake.openai(), "talk too long")
        .await
        .expect("an answer")
        .action
    else {
        panic!("no result");
    };
    assert!(matches!(cut.value, Arguments::Malformed { raw, .. } if raw == "{\"sum\":"));
}

#[tokio::test]
async fn openrouters_usage_falls_into_disjoint_buckets() {
    let fake = Aimock::start();
    let reply = ask(&fake.openrouter(), "think first").await.expect("a result");
    let value = Arguments::Json(json!({"sum": 3}));
    assert_eq!(reply.action, Action::Final(FinalResult { id: None, value }));
    let usage = TokenUsage {
        tokens_in: 36,
        tokens_out: 10,
        tokens_cached: 64,
        tokens_reasoning: 40,
    };
    assert_eq!(reply.usage, Some(usage));
}

#[tokio::test]
async fn its_errors_have_their_class() {
    let fake = Aimock::start();
    let limited = fails(&fake.openai(), "too often").await;
    assert_eq!(
        (limited.failure, limited.retry_after_ms),
        (ModelFailure::RateLimited, Some(7_000))
    );
    assert!(limited.message.ends_with("Rate limit reached"), "{limited}");
    let routed = fails(&fake.openrouter(), "too often").await;
    assert_eq!(
        (routed.failure, routed.retry_after_ms),
        (ModelFailure::RateLimited, Some(7_000))
    );
    assert_eq!(
        fails(&fake.openai(), "no such model").await.failure,
        ModelFailure::Refused
    );
    // In strict mode the fake answers 503 to what it has no answer for.
    assert_eq!(
        fails(&fake.openai(), "something else").await.failure,
        ModelFailure::Overloaded
    );
    let wrong_key = fake.openai().with_api_key("sk-wrong".to_owned());
    let denied = fails(&wrong_key, "add 1 and 2").await;
    assert_eq!(denied.failure, ModelFailure::Account);
    assert!(denied.message.contains("Invalid API key"), "{denied}");
}

#[tokio::test]
async fn its_chaos_is_reported_once_and_never_retried() {
    let fake = Aimock::start();
    for (fault, failure) in [
        ("x-aimock-chaos-malformed", ModelFailure::Malformed),
        ("x-aimock-chaos-disconnect", ModelFailure::InDoubt),
        ("x-aimock-chaos-drop", ModelFailure::Overloaded),
        ("x-aimock-chaos-ratelimit", ModelFailure::RateLimited),
    ] {
        let before = fake.requests().await.len();
        let mut config = fake.openai();
        config.headers.push((fault.into(), Secret::new("1")));
        assert_eq!(fails(&config, "add 1 and 2").await.failure, failure, "{fault}");
        assert_eq!(fake.requests().await.len(), before + 1, "{fault}");
    }
}
