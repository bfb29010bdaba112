use super::*;
use portolan_core::{
    call::{Action, Arguments, FinalResult, ToolCall},
    digest::Digest,
    failure::{FailureKind, RunFailure},
    ids::{ExecutionId, StepId},
    limits::{LimitKind, Limits},
    model::ModelReply,
    tool::{ToolError, ToolSpec},
};
use serde_json::{Value, json};

const T0: Timestamp = Timestamp(0);

struct Integers;

impl ResultCodec for Integers {
    fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        if value.is_i64() {
            return Ok(());
        }
        let message = "is no integer".to_owned();
        Err(vec![Violation {
            path: "/a".to_owned(),
            message,
        }])
    }
}

fn configured(limits: Limits) -> Arc<Configured> {
    let tools = ["a", "b"].map(|name| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
    });
    Arc::new(Configured {
        execution_id: ExecutionId::from_bytes([7; 16]),
        task: "count".to_owned(),
        context: json!({"x": 1, "y": 2}),
        instructions: vec!["be exact".to_owned()],
        tools: tools.to_vec(),
        result_schema: json!({"type": "integer"}),
        limits,
        max_output_tokens: None,
    })
}

fn begin(limits: Limits) -> Step {
    Step::Check(start(configured(limits), Arc::new(Integers), T0))
}

fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: Arguments::Json(arguments),
    }
}

fn result(value: Value) -> Action {
    Action::Final(FinalResult {
        id: None,
        value: Arguments::Json(value),
    })
}

/// Passes boundaries until something else is needed, and names them with their ordinals.
fn pass(mut step: Step, passed: &mut Vec<(Boundary, u64)>) -> Step {
    while let Step::Check(check) = step {
        passed.push((check.boundary(), check.ordinal()));
        step = check.verdict(Verdict::Go, T0);
    }
    step
}

fn model(step: Step) -> NeedModel {
    match pass(step, &mut Vec::new()) {
        Step::Model(need) => need,
        other => panic!("expected a model request, got {other:?}"),
    }
}

fn tool(step: Step) -> NeedTool {
    match pass(step, &mut Vec::new()) {
        Step::Tool(need) => need,
        other => panic!("expected an invocation, got {other:?}"),
    }
}

fn done(step: Step) -> Done {
    match pass(step, &mut Vec::new()) {
        Step::Evidence(need) => need.artifacts(Ok(Vec::new()), T0),
        other => panic!("expected the end, got {other:?}"),
    }
}

fn reply(action: Action) -> Result<ModelReply, Unanswered> {
    Ok(ModelReply::new(action))
}

fn kinds(trace: &[TraceEvent]) -> Vec<&'static str> {
    trace.iter().map(|event| event.kind.name()).collect()
}

use portolan_core::trace::TraceEvent;

#[test]
fn every_boundary_is_checked_in_order_and_numbered() {
    let mut passed = Vec::new();
    let need = match pass(begin(Limits::default()), &mut passed) {
        Step::Model(need) => need,
        other => panic!("{other:?}"),
    };
    assert_eq!(need.step(), StepId::llm(1));
    let step = need.reply(reply(Action::Call(call("c1", "a", json!({"n": 1})))), T0);
    let need = match pass(step, &mut passed) {
        Step::Tool(need) => need,
        other => panic!("{other:?}"),
    };
    assert_eq!((need.step(), need.place()), (StepId::tool(1), 0));
    assert_eq!(need.arguments(), &json!({"n": 1}));
    let step = pass(need.outcome(Ok(Ok(Value::Null)), T0), &mut passed);
    let Step::Model(need) = step else {
        panic!("{step:?}")
    };
    assert_eq!(need.request().exchanges().count(), 1);
    let step = pass(need.reply(reply(result(json!(4))), T0), &mut passed);
    let Step::Evidence(need) = step else {
        panic!("{step:?}")
    };
    assert_eq!(need.ending(), &Ending::Succeeded(json!(4)));
    let done = need.artifacts(Ok(Vec::new()), T0);
    use Boundary::*;
    let expected = [
        BeforeModel,
        AfterModel,
        BeforeTool,
        AfterTool,
        BeforeModel,
        AfterModel,
        AfterResultValidation,
    ];
    assert_eq!(passed, expected.into_iter().zip(1..).collect::<Vec<_>>());
    assert_eq!(done.outcome(), Ok(&json!(4)));
    assert_eq!(
        kinds(done.trace()),
        [
            "execution.started",
            "model.requested",
            "tool.started",
            "tool.completed",
            "model.requested",
            "result.produced",
            "execution.completed"
        ]
    );
    assert_eq!((done.usage().model_calls, done.usage().tool_calls), (2, 1));
}

#[test]
fn an_aborted_effect_ends_like_the_check_after_it() {
    let need = model(begin(Limits::default()));
    let aborted = done(need.reply(Err(Unanswered::Aborted(Stop::Cancelled)), T0));
    let need = model(begin(Limits::default()));
    let Step::Check(after) = need.reply(reply(result(json!(1))), T0) else {
        panic!("no check after the model");
    };
    let checked = done(after.verdict(Verdict::Cancelled, T0));
    assert_eq!(aborted.outcome(), checked.outcome());
    assert_eq!(aborted.trace(), checked.trace());
    let failure = aborted.outcome().unwrap_err();
    assert_eq!(
        (failure.boundary, failure.ordinal),
        (Some(Boundary::AfterModel), Some(2))
    );

    let need =
        tool(model(begin(Limits::default())).reply(reply(Action::Call(call("c", "a", json!({})))), T0));
    let ended = done(need.outcome(Err(Unanswered::Aborted(Stop::OutOfTime)), T0));
    let failure = ended.outcome().unwrap_err();
    assert_eq!(failure.limit, Some(LimitKind::WallTime));
    assert_eq!(
        (failure.boundary, failure.ordinal),
        (Some(Boundary::AfterTool), Some(4))
    );
    assert_eq!(ended.usage().tool_calls, 1);
}

#[test]
fn a_refused_effect_leaves_no_sign_of_itself() {
    let refusal = RunFailure {
        limit: Some(LimitKind::MaxCostUsd),
        ..RunFailure::new(FailureKind::LimitExhausted, "too expensive")
    };
    let need = model(begin(Limits::default()));
    let ended = done(need.reply(Err(Unanswered::Refused(refusal.clone())), T0));
    assert_eq!(
        kinds(ended.trace()),
        ["execution.started", "execution.limit_exhausted"]
    );
    assert_eq!(ended.outcome().unwrap_err().step_id, Some(StepId::llm(1)));

    let need =
        tool(model(begin(Limits::default())).reply(reply(Action::Call(call("c", "a", json!({})))), T0));
    let ended = done(need.outcome(Err(Unanswered::Refused(refusal)), T0));
    assert_eq!(ended.usage().tool_calls, 0);
    assert!(!kinds(ended.trace()).contains(&"tool.started"));
}

#[test]
fn unknown_names_and_malformed_arguments_are_observations_without_a_step() {
    let malformed = ToolCall {
        arguments: Arguments::Malformed {
            raw: "{".to_owned(),
            reason: "ends too early".to_owned(),
        },
        ..call("c2", "a", Value::Null)
    };
    let batch = Action::Batch(vec![
        call("c1", "nope", json!({})),
        malformed,
        call("", "b", json!([])),
    ]);
    let need = tool(model(begin(Limits::default())).reply(reply(batch), T0));
    assert_eq!(need.step(), StepId::tool(1));
    assert_eq!(need.call().name, "b");
    assert!(!need.call().id.is_empty());
    let need = model(need.outcome(Ok(Err(ToolError::Denied("no".to_owned()))), T0));
    assert_eq!(need.usage().tool_calls, 1);
    assert_eq!(need.request().exchanges().count(), 3);
    let denied = kinds(need.trace())
        .into_iter()
        .filter(|kind| *kind == "tool.denied");
    assert_eq!(denied.count(), 3);
}

#[test]
fn finals_of_a_batch_are_refused_after_its_tools() {
    let batch = Action::Batch(vec![
        call("f", "final_result", json!(1)),
        call("c", "a", json!({})),
    ]);
    let need = tool(model(begin(Limits::default())).reply(reply(batch), T0));
    let need = model(need.outcome(Ok(Ok(json!("out"))), T0));
    let ids: Vec<&str> = need.request().exchanges().map(|e| e.call.id.as_str()).collect();
    assert_eq!(ids, ["c", "f"]);
    assert_eq!(need.usage().result_rejections, 1);
}

#[test]
fn batches_are_bounded() {
    let batch = |n: usize| Action::Batch((0..n).map(|i| call(&i.to_string(), "nope", json!({}))).collect());
    for n in [0, MAX_BATCH + 1] {
        let ended = done(model(begin(Limits::default())).reply(reply(batch(n)), T0));
        assert_eq!(ended.outcome().unwrap_err().kind, FailureKind::Provider, "{n}");
        assert_eq!(ended.usage().model_calls, 0, "{n}");
        assert!(kinds(ended.trace()).contains(&"model.failed"), "{n}");
    }
    let need = model(model(begin(Limits::default())).reply(reply(batch(MAX_BATCH)), T0));
    assert_eq!(need.request().exchanges().count(), MAX_BATCH);
}

#[test]
fn violations_reach_the_model_with_their_paths() {
    let need = model(model(begin(Limits::default())).reply(reply(result(json!("x"))), T0));
    let exchange = need.request().exchanges().next().expect("one exchange");
    assert_eq!(exchange.call.name, "final_result");
    let told = format!("{:?}", exchange.observation);
    assert!(told.contains("/a: is no integer"), "{told}");
}

#[test]
fn retries_come_before_model_calls_and_a_discarded_result_is_kept() {
    let limits = Limits {
        model_calls: 1,
        result_retries: 0,
        ..Limits::default()
    };
    let ended = done(model(begin(limits)).reply(reply(result(json!("x"))), T0));
    assert_eq!(ended.outcome().unwrap_err().kind, FailureKind::ResultContract);

    let step = model(begin(limits)).reply(reply(result(json!(9))), T0);
    let Step::Check(after_model) = step else {
        panic!("{step:?}")
    };
    let Step::Check(after_validation) = after_model.verdict(Verdict::Go, T0) else {
        panic!("no check after the validation");
    };
    let ended = done(after_validation.verdict(Verdict::Cancelled, T0));
    assert_eq!(ended.discarded(), Some(&json!(9)));
    assert!(!kinds(ended.trace()).contains(&"result.produced"));
}

#[test]
fn a_driver_failure_ends_the_run_after_the_check() {
    let need =
        tool(model(begin(Limits::default())).reply(reply(Action::Call(call("c", "a", json!({})))), T0));
    let failure = RunFailure::new(FailureKind::ToolUnavailable, "no sandbox");
    let step = need.outcome(Err(Unanswered::Failed(failure)), T0);
    assert!(matches!(&step, Step::Check(check) if check.boundary() == Boundary::AfterTool));
    let ended = done(step);
    assert_eq!(ended.outcome().unwrap_err().step_id, Some(StepId::tool(1)));
    assert_eq!(kinds(ended.trace()).last(), Some(&"execution.failed"));
}

#[test]
fn unknown_artifacts_are_said_before_the_terminal_event() {
    let step = pass(
        model(begin(Limits::default())).reply(reply(result(json!(1))), T0),
        &mut Vec::new(),
    );
    let Step::Evidence(need) = step else {
        panic!("{step:?}")
    };
    let ended = need.artifacts(Err("unreadable".to_owned()), T0);
    assert_eq!(ended.artifacts_unknown(), Some("unreadable"));
    assert_eq!(
        kinds(ended.trace()),
        [
            "execution.started",
            "model.requested",
            "result.produced",
            "artifacts.unknown",
            "execution.completed"
        ]
    );
}

/// Answers in a fixed way and writes down every digest.
fn drive(plan: &[u8], turn_keys: bool) -> (Vec<Digest>, Parts) {
    let limits = Limits {
        model_calls: 12,
        tool_calls: 12,
        ..Limits::default()
    };
    let mut step = begin(limits);
    let mut digests = Vec::new();
    let mut plan = plan.iter().copied();
    loop {
        step = match step {
            Step::Check(check) => check.verdict(Verdict::Go, T0),
            Step::Model(need) => {
                digests.push(need.digest());
                need.reply(planned(plan.next().unwrap_or(0), turn_keys), T0)
            }
            Step::Tool(need) => {
                digests.push(need.digest());
                let output = need.arguments().clone();
                need.outcome(Ok(Ok(output)), T0)
            }
            Step::Evidence(need) => Step::Done(need.artifacts(Ok(Vec::new()), T0)),
            Step::Done(done) => return (digests, done.into_parts()),
        };
    }
}

fn planned(choice: u8, turn_keys: bool) -> Result<ModelReply, Unanswered> {
    let text = if turn_keys {
        r#"{"b": [1, {"d": 2, "c": 3}], "a": 0.1}"#
    } else {
        r#"{"a": 0.1, "b": [1, {"c": 3, "d": 2}]}"#
    };
    let arguments: Value = serde_json::from_str(text).expect("the text is JSON");
    let name = if choice.is_multiple_of(2) { "a" } else { "nope" };
    match choice % 7 {
        0 => reply(result(json!(1))),
        1 | 2 => reply(Action::Call(call("c", name, arguments))),
        3 | 4 => reply(Action::Batch(vec![
            call("x", "b", arguments.clone()),
            call("y", name, arguments),
        ])),
        5 => reply(result(json!("no integer"))),
        _ => Err(Unanswered::Failed(RunFailure::new(FailureKind::Provider, "down"))),
    }
}

proptest::proptest! {
    #[test]
    fn the_same_answers_give_the_same_digests_and_trace(plan: Vec<u8>) {
        let (digests, parts) = drive(&plan, false);
        assert_eq!(drive(&plan, false), (digests.clone(), parts));
        assert_eq!(drive(&plan, true).0, digests, "the order of keys changed a digest");
        let distinct: std::collections::HashSet<_> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len(), "two steps share a digest");
    }
}

#[test]
fn the_digest_covers_everything_that_a_model_may_know() {
    let first = |change: fn(&mut Configured)| {
        let mut changed = (*configured(Limits::default())).clone();
        change(&mut changed);
        model(Step::Check(start(Arc::new(changed), Arc::new(Integers), T0))).digest()
    };
    let same = first(|_| ());
    assert_eq!(first(|c| c.execution_id = ExecutionId::from_bytes([8; 16])), same);
    assert_eq!(first(|c| c.context = json!({"y": 2, "x": 1})), same);
    assert_ne!(first(|c| c.context = json!({"y": 2, "x": 1.0})), same);
    assert_ne!(first(|c| c.task.push('!')), same);
    assert_ne!(first(|c| c.instructions.clear()), same);
    assert_ne!(first(|c| c.tools.truncate(1)), same);
    assert_ne!(first(|c| c.tools[0].description.push('!')), same);
    assert_ne!(first(|c| c.result_schema = json!(true)), same);
    assert_ne!(first(|c| c.max_output_tokens = Some(1)), same);
}
