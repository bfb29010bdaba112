//! Time of the loop itself with a scripted model: microseconds per model call with 1, 100 and 1,000 tool calls.
//!
//! The figures must be flat: whatever grows with the history is a defect. Configuration is timed apart.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

use portolan_agent::{
    agent,
    codec::SchemaCodec,
    machine::{self, Configured, Step, Verdict},
    tool_fn,
};
use portolan_core::{
    Fut,
    call::{Action, Arguments, FinalResult, ToolCall},
    ids::{ExecutionId, IdempotencyKey},
    limits::Limits,
    model::{Model, ModelError, ModelReply, ModelRequest},
    time::Timestamp,
    tool::ToolSpec,
};
use serde::Deserialize;
use serde_json::json;
use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

const TOOL_CALLS: [u32; 3] = [1, 100, 1_000];
const ROUNDS: u32 = 30;

#[derive(Deserialize, schemars::JsonSchema)]
struct Query {
    text: String,
}

/// Calls a tool so many times, then submits.
struct Counting {
    calls: u32,
    made: AtomicU32,
}

impl Model for Counting {
    fn call<'a>(
        &'a self,
        _key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        black_box(request.history.len());
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let action = next_action(made, self.calls);
        Box::pin(std::future::ready(Ok(ModelReply::new(action))))
    }
}

fn next_action(made: u32, calls: u32) -> Action {
    if made < calls {
        Action::Call(ToolCall {
            id: format!("c{made}"),
            name: "search".to_owned(),
            arguments: Arguments::Json(json!({"text": "parser"})),
        })
    } else {
        Action::Final(FinalResult {
            id: None,
            value: Arguments::Json(json!({"answer": "done"})),
        })
    }
}

fn limits(calls: u32) -> Limits {
    Limits {
        model_calls: calls + 1,
        tool_calls: calls,
        ..Limits::default()
    }
}

fn schema() -> serde_json::Value {
    json!({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]})
}

/// The blocking driver, configuration included.
fn driver(calls: u32) -> Duration {
    let model = Counting {
        calls,
        made: AtomicU32::new(0),
    };
    let begun = Instant::now();
    let execution = agent("Plan the change")
        .model(&model)
        .tool(tool_fn("search", "Searches.", |query: Query| {
            Ok::<_, String>(query.text.len())
        }))
        .limits(limits(calls))
        .returns_schema(schema())
        .run();
    let took = begun.elapsed();
    assert!(execution.is_ok(), "the script leads to a result");
    took
}

/// The machine alone, answered by hand.
fn bare(calls: u32) -> (Duration, Duration) {
    let begun = Instant::now();
    let configured = Arc::new(Configured {
        execution_id: ExecutionId::from_bytes([1; 16]),
        task: "Plan the change".to_owned(),
        context: json!({}),
        instructions: Vec::new(),
        tools: vec![ToolSpec {
            name: "search".to_owned(),
            description: "Searches.".to_owned(),
            input_schema: json!({"type": "object"}),
        }],
        result_schema: schema(),
        limits: limits(calls),
        max_output_tokens: None,
    });
    let codec = Arc::new(SchemaCodec::new(schema()).expect("the schema is usable"));
    let configuring = begun.elapsed();

    let begun = Instant::now();
    let at = Timestamp::EPOCH;
    let mut step = Step::Check(machine::start(configured, codec, at));
    let mut made = 0;
    loop {
        step = match step {
            Step::Check(check) => check.verdict(Verdict::Go, at),
            Step::Model(need) => {
                black_box((need.digest(), need.request().history.len()));
                let action = next_action(made, calls);
                made += 1;
                need.reply(Ok(ModelReply::new(action)), at)
            }
            Step::Tool(need) => {
                black_box(need.digest());
                need.outcome(Ok(Ok(json!(6))), at)
            }
            Step::Evidence(need) => Step::Done(need.artifacts(Ok(Vec::new()), at)),
            Step::Done(done) => {
                let took = begun.elapsed();
                assert!(done.outcome().is_ok(), "the script leads to a result");
                return (configuring, took);
            }
        };
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let configuring = median((0..ROUNDS).map(|_| bare(1).0).collect());
    println!("configuration      {:>8.2} µs", configuring.as_secs_f64() * 1e6);
    for calls in TOOL_CALLS {
        let per_call = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(calls + 1);
        let machine = median((0..ROUNDS).map(|_| bare(calls).1).collect());
        let whole = median((0..ROUNDS).map(|_| driver(calls)).collect());
        println!(
            "{calls:>5} tool calls   machine {:>7.3} µs per model call   blocking driver with configuration {:>7.3} µs per model call",
            per_call(machine),
            per_call(whole)
        );
    }
}
