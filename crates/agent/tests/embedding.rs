//! The agent expression as an embedding program uses it.

use portolan_agent::{
    Execution, ExecutionError, MAX_OUTPUT_BYTES, agent,
    scripted::{self, ScriptedModel},
    tool_fn,
    tools::MemoryResource,
    workspace::{MemoryWorkspace, Policy},
};
use portolan_core::{
    Fut,
    call::Observation,
    cancel::CancelToken,
    failure::FailureKind,
    limits::Limits,
    tool::{Tool, ToolError, ToolInvocation, ToolSpec},
    trace::Boundary,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
};

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Query {
    text: String,
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

fn finishing() -> ScriptedModel {
    ScriptedModel::new([scripted::result("done")])
}

fn told(model: &ScriptedModel, place: usize) -> Observation {
    let requests = model.requests();
    let last = requests.last().expect("the model was asked");
    last.exchanges[place].observation.clone()
}

/// A tool that misbehaves on purpose.
struct Odd {
    name: &'static str,
    schema: Value,
    panics: bool,
}

impl Tool for Odd {
    fn spec(&self) -> ToolSpec {
        assert!(!self.panics, "no specification today");
        ToolSpec {
            name: self.name.to_owned(),
            description: String::new(),
            input_schema: self.schema.clone(),
        }
    }

    fn call<'a>(&'a self, _invocation: ToolInvocation<'a>) -> Fut<'a, Result<Value, ToolError>> {
        Box::pin(std::future::ready(Ok(Value::Null)))
    }
}

fn odd(name: &'static str) -> Odd {
    Odd {
        name,
        schema: json!({"type": "object"}),
        panics: false,
    }
}

#[test]
fn what_cannot_be_configured_asks_no_model() {
    let model = finishing();
    let base = || agent("x").model(&model);
    let string = json!({"type": "string"});
    let calls = [
        ("no model", agent("x").returns_schema(string.clone())),
        ("schema", base().returns_schema(json!({"type": "nothing"}))),
        (
            "limits",
            base()
                .limits(Limits {
                    model_calls: 0,
                    ..Limits::default()
                })
                .returns_schema(string.clone()),
        ),
        (
            "duplicate",
            base()
                .tool(odd("a"))
                .tool(odd("a"))
                .returns_schema(string.clone()),
        ),
        (
            "reserved",
            base().tool(odd("final_result")).returns_schema(string.clone()),
        ),
        ("name", base().tool(odd("a b")).returns_schema(string.clone())),
        (
            "input schema",
            base()
                .tool(Odd {
                    schema: json!(true),
                    ..odd("a")
                })
                .returns_schema(string.clone()),
        ),
        (
            "panicking specification",
            base()
                .tool(Odd {
                    panics: true,
                    ..odd("a")
                })
                .returns_schema(string.clone()),
        ),
        (
            "file",
            base()
                .instruction_file("/nowhere/rule.md")
                .returns_schema(string.clone()),
        ),
        (
            "function",
            base()
                .instruction_fn(|| Err::<String, _>("not today"))
                .returns_schema(string.clone()),
        ),
        ("context", base().context(f64_map()).returns_schema(string)),
    ];
    for (what, call) in calls {
        let error = call.run().expect_err(what);
        assert_eq!(error.kind(), FailureKind::Configuration, "{what}");
        assert!(error.evidence.trace.is_empty(), "{what}");
        assert!(!error.to_string().is_empty(), "{what}");
    }
    assert_eq!(model.requests(), []);
}

/// A map whose keys are no strings, which JSON cannot hold.
fn f64_map() -> std::collections::BTreeMap<Vec<u8>, u8> {
    [(vec![1], 2)].into()
}

#[test]
fn a_typed_result_is_corrected_and_decoded() {
    let model = ScriptedModel::new([
        scripted::result(json!({"text": 7})),
        scripted::result(json!({"text": "seven"})),
    ]);
    let execution: Execution<Query> = agent("x")
        .model(&model)
        .returns::<Query>()
        .run()
        .expect("a result");
    assert_eq!(
        execution.value,
        Query {
            text: "seven".to_owned()
        }
    );
    assert_eq!(execution.usage.result_rejections, 1);
    let Observation::Error(why) = told(&model, 0) else {
        panic!("the refusal is an error");
    };
    assert!(why.contains("/text"), "{why}");
}

#[test]
fn tool_functions_decode_their_arguments_and_pass_errors_on() {
    let made = AtomicU32::new(0);
    let arguments = json!({"text": "t"});
    let model = ScriptedModel::new([
        scripted::batch([
            scripted::tool_call("c1", "echo", &arguments),
            scripted::tool_call("c2", "echo", json!({"text": 1})),
            scripted::tool_call("c3", "denied", &arguments),
            scripted::tool_call("c4", "later", &arguments),
            scripted::tool_call("c5", "boom", &arguments),
            scripted::tool_call("c6", "large", &arguments),
        ]),
        scripted::result("done"),
    ]);
    let counted = |query: Query| {
        made.fetch_add(1, Ordering::SeqCst);
        Ok::<_, String>(query)
    };
    let execution = agent("x")
        .model(&model)
        .tool(tool_fn("echo", "Echoes.", counted))
        .tool(tool_fn("denied", "Denies.", |_: Query| {
            Err::<(), _>(ToolError::Denied("never".to_owned()))
        }))
        .tool(tool_fn("later", "Answers later.", async |query: Query| {
            Err::<(), _>(query.text)
        }))
        .tool(tool_fn("boom", "Panics.", |query: Query| -> Result<(), String> {
            panic!("{}", query.text)
        }))
        .tool(tool_fn("large", "Says much.", |_: Query| {
            Ok::<_, String>("x".repeat(2 * MAX_OUTPUT_BYTES))
        }))
        .returns::<String>()
        .run()
        .expect("a result");
    assert_eq!(execution.usage.tool_calls, 6);
    assert_eq!(
        made.load(Ordering::SeqCst),
        1,
        "undecodable arguments reached the function"
    );
    assert_eq!(told(&model, 0), Observation::Output(arguments));
    assert!(matches!(told(&model, 1), Observation::Error(why) if why.contains("not valid")));
    assert_eq!(told(&model, 2), Observation::Error("never".to_owned()));
    assert_eq!(told(&model, 3), Observation::Error("t".to_owned()));
    assert_eq!(told(&model, 4), Observation::Error("t".to_owned()));
    assert!(matches!(told(&model, 5), Observation::Output(cut) if cut["truncated"] == true));
    let kinds: Vec<&str> = execution.trace.iter().map(|event| event.kind.name()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "tool.denied").count(), 1);
    assert_eq!(kinds.iter().filter(|kind| **kind == "tool.failed").count(), 3);
}

#[test]
fn a_provider_that_fails_or_panics_leaves_evidence() {
    for (step, message) in [
        (scripted::error("HTTP 500"), "HTTP 500"),
        (
            scripted::Scripted::Panic("socket closed".to_owned()),
            "socket closed",
        ),
    ] {
        let write = json!({"operation": "write", "path": "a.txt", "content": "x"});
        let model = ScriptedModel::new([scripted::call("c1", "editor", write), step]);
        let workspace = MemoryWorkspace::new([], Policy::editing()).expect("a workspace");
        let error: ExecutionError = agent("x")
            .model(&model)
            .tool(portolan_agent::tools::Editor)
            .workspace(&workspace)
            .returns::<String>()
            .run()
            .expect_err("the provider fails");
        assert_eq!(
            (error.kind(), error.failure.message.as_str()),
            (FailureKind::Provider, message)
        );
        assert_eq!(error.evidence.artifacts.len(), 1);
        assert_eq!(error.evidence.execution_id, model.requests()[0].execution_id);
        assert_eq!(error.evidence.usage.model_calls, 1);
        assert_eq!(model.requests().len(), 2, "an embedded driver does not retry");
    }
}

#[test]
fn a_result_that_the_last_boundary_discards_is_evidence() {
    let model = finishing();
    let cancel = CancelToken::new();
    let switch = cancel.clone();
    let error = agent("x")
        .model(&model)
        .cancel(cancel)
        .at_boundary(move |boundary, _| {
            if boundary == Boundary::AfterResultValidation {
                switch.cancel();
            }
        })
        .returns::<String>()
        .run()
        .expect_err("it is cancelled");
    assert_eq!(error.kind(), FailureKind::Cancelled);
    assert_eq!(error.evidence.discarded, Some(json!("done")));
}

/// A future that another thread completes.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

impl Future for Gate {
    type Output = Result<&'static str, String>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock().expect("nobody panics with it");
        state.1 = Some(context.waker().clone());
        if state.0 {
            Poll::Ready(Ok("open"))
        } else {
            Poll::Pending
        }
    }
}

#[test]
fn the_blocking_driver_waits_for_what_another_thread_completes() {
    let model = ScriptedModel::new([
        scripted::call("c1", "wait", json!({"text": ""})),
        scripted::result("done"),
    ]);
    let gate = Gate::default();
    let (reached, is_reached) = mpsc::channel();
    let (opener, shared) = (gate.clone(), gate);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            is_reached.recv().expect("the tool is reached");
            let mut state = opener.0.lock().expect("nobody panics with it");
            state.0 = true;
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
        });
        let wait = tool_fn("wait", "Waits.", move |_: Query| {
            reached.send(()).expect("somebody listens");
            shared.clone()
        });
        let execution = agent("x").model(&model).tool(wait).returns::<String>().run();
        assert_eq!(execution.expect("a result").value, "done");
    });
    assert_eq!(told(&model, 0), Observation::Output(json!("open")));
}

#[test]
fn a_tool_may_run_another_agent_and_both_drivers_agree() {
    let run = |blocking: bool| {
        let model = ScriptedModel::new([
            scripted::call("c1", "ask", json!({"text": "inner"})),
            scripted::result("outer"),
        ]);
        let call = agent("x")
            .model(&model)
            .tool(tool_fn("ask", "Asks another agent.", |query: Query| {
                let inner = ScriptedModel::new([scripted::result(&query.text)]);
                agent("y")
                    .model(&inner)
                    .returns::<String>()
                    .run()
                    .map(|execution| execution.value)
            }))
            .resource(
                "docs",
                MemoryResource::new([], Policy::reading()).expect("a resource"),
            )
            .returns::<String>();
        let execution = if blocking {
            call.run()
        } else {
            block_on(call.run_async())
        };
        let execution = execution.expect("a result");
        let kinds: Vec<_> = execution.trace.into_iter().map(|event| event.kind).collect();
        let names: Vec<String> = model.requests()[0]
            .tools
            .iter()
            .map(|tool| tool.name.clone())
            .collect();
        (execution.value, kinds, names, told(&model, 0))
    };
    let blocking = run(true);
    assert_eq!(blocking.2, ["ask", "resource_docs"]);
    assert_eq!(blocking.3, Observation::Output(json!("inner")));
    assert_eq!(blocking, run(false));
}

#[test]
fn an_execution_can_cross_threads() {
    fn sends<T: Send>(value: T) -> T {
        value
    }
    let model = finishing();
    let future = sends(agent("x").model(&model).returns::<String>().run_async());
    assert_eq!(block_on(future).expect("a result").value, "done");
}
