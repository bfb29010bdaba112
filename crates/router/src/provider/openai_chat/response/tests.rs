use super::*;
use portolan_core::usage::TokenUsage;
use serde_json::json;

/// Fields as in OpenAI API reference, "The chat completion object": `id`, `object`, `created`, `model`, `choices[].index`,
/// `.message.{role, content, refusal, tool_calls[].{id, type, function.{name, arguments}}}`, `.finish_reason`, `usage`.
fn completion(message: &Value, finish: &str) -> Value {
    let mut whole = json!({"role": "assistant", "content": null, "refusal": null, "annotations": []});
    for (field, value) in message.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    json!({
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "object": "chat.completion", "created": 1_741_569_952,
        "model": "gpt-4.1-2025-04-14", "service_tier": "default", "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "message": whole, "logprobs": null, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": 82, "completion_tokens": 17, "total_tokens": 99,
            "prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 7, "audio_tokens": 0,
                "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
            },
        },
    })
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn read(answer: &Value) -> Result<ModelReply, String> {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    reply(answer.to_string().as_bytes(), &ResultForm::new(&schema, true))
}

fn action(answer: &Value) -> Action {
    read(answer).expect("a reply").action
}

fn malformed(arguments: &Arguments) -> (&str, &str) {
    match arguments {
        Arguments::Malformed { raw, reason } => (raw, reason),
        Arguments::Json(value) => panic!("{value} was taken for proper arguments"),
    }
}

#[test]
fn a_tool_call_is_a_call_with_everything_around_it() {
    let raw = "{\n \"location\": \"Boston, MA\"\n}";
    let said = json!({"content": "Let me look.", "tool_calls": [call("call_abc123", "get_weather", raw)]});
    let reply = read(&completion(&said, "tool_calls")).expect("a reply");
    assert_eq!(
        reply.action,
        Action::Call(ToolCall {
            id: "call_abc123".into(),
            name: "get_weather".into(),
            arguments: Arguments::Json(json!({"location": "Boston, MA"})),
        })
    );
    assert_eq!(reply.text.as_deref(), Some("Let me look."));
    assert_eq!(reply.model.as_deref(), Some("gpt-4.1-2025-04-14"));
    assert_eq!(
        reply.provider_id.as_deref(),
        Some("chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT")
    );
    let usage = TokenUsage {
        tokens_in: 80,
        tokens_out: 10,
        tokens_cached: 2,
        tokens_reasoning: 7,
    };
    assert_eq!(reply.usage, Some(usage));
    let echo = reply.echo.expect("an echo");
    assert_eq!(echo["openaiChat"]["toolCalls"][0]["function"]["arguments"], raw);
}

#[test]
fn several_calls_are_a_batch_in_order_and_every_id_is_unique() {
    let mut nameless = call("", "c", "{}");
    nameless.as_object_mut().expect("an object").remove("id");
    let calls = json!([
        call("x", "a", "{}"),
        call("x", "final_result", "{}"),
        nameless,
        call("", "d", "[1]")
    ]);
    let Action::Batch(batch) = action(&completion(&json!({"tool_calls": calls}), "tool_calls")) else {
        panic!("no batch");
    };
    let seen: Vec<_> = batch
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("x", "a"),
            ("x_1", "final_result"),
            ("call_1", "c"),
            ("call_2", "d")
        ]
    );
    assert_eq!(batch[3].arguments, Arguments::Json(json!([1])));
}

#[test]
fn the_result_tool_alone_is_the_result() {
    for finish in ["tool_calls", "stop"] {
        let said = json!({"tool_calls": [call("call_1", "final_result", r#"{"city":"Porto"}"#)]});
        let Action::Final(result) = action(&completion(&said, finish)) else {
            panic!("no result");
        };
        assert_eq!(result.id.as_deref(), Some("call_1"));
        assert_eq!(result.value, Arguments::Json(json!({"city": "Porto"})));
    }
}

#[test]
fn what_is_not_exactly_json_stays_as_it_was_written() {
    for raw in [
        "",
        "{\"a\": 1",
        "{\"a\":1}}",
        "{\"a\":1,\"a\":2}",
        "{a:1}",
        "get_weather(x)",
        "NaN",
    ] {
        let said = json!({"tool_calls": [call("c", "t", raw)]});
        let Action::Call(call) = action(&completion(&said, "tool_calls")) else {
            panic!("no call");
        };
        assert_eq!(malformed(&call.arguments).0, raw);
    }
    let bare = json!({"tool_calls": [{"id": "c", "type": "function", "function": {"name": "t"}}]});
    let Action::Call(call) = action(&completion(&bare, "tool_calls")) else {
        panic!("no call");
    };
    assert_eq!(
        malformed(&call.arguments).0,
        "",
        "missing arguments became a default"
    );
}

#[test]
fn arguments_given_as_a_value_are_read_as_strictly() {
    let answer = |arguments: &str| {
        let whole = completion(&json!({"tool_calls": [call("c", "t", "ARGS")]}), "stop").to_string();
        let schema = json!({"type": "string"});
        let text = whole.replace("\"ARGS\"", arguments);
        match reply(text.as_bytes(), &ResultForm::new(&schema, true))
            .expect("a reply")
            .action
        {
            Action::Call(call) => call.arguments,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(answer(r#"{"a":1}"#), Arguments::Json(json!({"a": 1})));
    assert!(malformed(&answer(r#"{"a":1,"a":2}"#)).1.contains("twice"));
}

#[test]
fn a_cut_answer_never_becomes_a_call_even_if_it_looks_complete() {
    for finish in ["length", "content_filter", "function_call", "weird"] {
        let said = json!({"tool_calls": [call("c", "rm", r#"{"path":"/tmp"}"#)]});
        let Action::Call(call) = action(&completion(&said, finish)) else {
            panic!("no call");
        };
        assert_eq!(malformed(&call.arguments).0, r#"{"path":"/tmp"}"#, "{finish}");
    }
    let mut reasonless = completion(&json!({"content": "{\"city\":\"Por"}), "x");
    reasonless["choices"][0]["finish_reason"] = Value::Null;
    let Action::Final(result) = action(&reasonless) else {
        panic!("no result");
    };
    assert_eq!(
        malformed(&result.value),
        ("{\"city\":\"Por", "the answer ended without a reason")
    );
    let empty = completion(&json!({"content": ""}), "length");
    let Action::Final(result) = action(&empty) else {
        panic!("no result");
    };
    assert_eq!(
        malformed(&result.value),
        ("", "the answer was cut at the output limit")
    );
}

#[test]
fn text_is_the_json_that_it_is_or_else_itself() {
    for (text, expected) in [
        (r#" {"city":"Porto"} "#, json!({"city": "Porto"})),
        ("42", json!(42)),
        ("Porto it is", json!("Porto it is")),
        ("```json\n{}\n```", json!("```json\n{}\n```")),
    ] {
        let reply = read(&completion(&json!({"content": text}), "stop")).expect("a reply");
        let value = Arguments::Json(expected);
        assert_eq!(reply.action, Action::Final(FinalResult { id: None, value }));
        assert_eq!((reply.text, reply.echo), (None, None));
    }
    let Action::Final(twice) = action(&completion(&json!({"content": r#"{"a":1,"a":2}"#}), "stop")) else {
        panic!("no result");
    };
    assert!(malformed(&twice.value).1.contains("twice"));

    let schema = json!({"type": "string"});
    let answer = completion(&json!({"content": "42"}), "stop").to_string();
    let reply = reply(answer.as_bytes(), &ResultForm::new(&schema, true)).expect("a reply");
    let value = Arguments::Json(json!("42"));
    assert_eq!(reply.action, Action::Final(FinalResult { id: None, value }));
}

#[test]
fn a_refusal_is_no_result() {
    let said = json!({"refusal": "I cannot help with that."});
    let Action::Final(result) = action(&completion(&said, "stop")) else {
        panic!("no result");
    };
    assert_eq!(
        malformed(&result.value),
        ("I cannot help with that.", "the model refused the task")
    );
}

/// OpenRouter, "Errors": a failure after the model had begun comes under 200, in `error {code, message, metadata?}`.
#[test]
fn a_complete_answer_that_is_no_answer_is_said_to_be_none() {
    let mut choice_error = completion(&json!({"content": "half"}), "error");
    choice_error["choices"][0]["error"] = json!({"code": 502, "message": "upstream died"});
    let mut custom = completion(&json!({}), "tool_calls");
    custom["choices"][0]["message"]["tool_calls"] =
        json!([{"id": "c", "type": "custom", "custom": {"name": "x"}}]);
    let mut foreign = call("c", "x", "{}");
    foreign["type"] = json!("mcp");
    for (answer, part) in [
        (
            json!({"error": {"code": 429, "message": "slow down"}}),
            "slow down",
        ),
        (json!({"error": "broken"}), "broken"),
        (choice_error, "upstream died"),
        (
            completion(&json!({"content": "half"}), "error"),
            "without saying which",
        ),
        (json!({"choices": []}), "without choices"),
        (json!({"choices": null}), "without choices"),
        (json!({}), "without choices"),
        (json!([]), "no chat completion"),
        (
            json!({"choices": [{"finish_reason": "stop"}]}),
            "no chat completion",
        ),
        (completion(&json!({}), "stop"), "neither text nor calls"),
        (
            completion(&json!({"tool_calls": []}), "tool_calls"),
            "neither text nor calls",
        ),
        (
            completion(&json!({"content": [{"type": "text", "text": "x"}]}), "stop"),
            "no chat completion",
        ),
        (custom, "another shape"),
        (
            completion(&json!({"tool_calls": [foreign]}), "tool_calls"),
            "no function call",
        ),
    ] {
        let said = read(&answer).expect_err("no answer");
        assert!(said.contains(part), "{said} for {answer}");
    }
    let schema = json!({});
    for bytes in [
        &b"<html>"[..],
        b"",
        b"{\"choices\": [",
        b"\xff\xfe",
        br#"{"id":"a","id":"b"}"#,
    ] {
        assert!(
            reply(bytes, &ResultForm::new(&schema, true)).is_err(),
            "{bytes:?}"
        );
    }
}

#[test]
fn missing_usage_is_unknown_and_not_zero() {
    let mut answer = completion(&json!({"content": "x"}), "stop");
    answer.as_object_mut().expect("an object").remove("usage");
    assert_eq!(read(&answer).expect("a reply").usage, None);
    answer["usage"] = Value::Null;
    assert_eq!(read(&answer).expect("a reply").usage, None);
}
