use super::*;
use crate::provider::{Preset, openai_chat::response};
use portolan_core::{
    call::{Arguments, Exchange, Observation, ToolCall, Turn},
    ids::ExecutionId,
};

struct Setup {
    history: Vec<Turn>,
    instructions: Vec<String>,
    context: Value,
    schema: Value,
    preset: Preset,
}

impl Setup {
    fn new() -> Self {
        Self {
            history: Vec::new(),
            instructions: vec!["Be brief.".into(), "Be right.".into()],
            context: json!({"unit": "celsius"}),
            schema: json!({"type": "object", "properties": {"t": {"type": "integer"}}, "required": ["t"]}),
            preset: Preset::OpenAi,
        }
    }

    fn body(&self) -> Value {
        let tools = [ToolSpec {
            name: "get_weather".into(),
            description: "Looks the weather up.".into(),
            input_schema: json!({"type": "object"}),
        }];
        let request = ModelRequest {
            execution_id: ExecutionId::from_bytes([1; 16]),
            task: "How warm is it?",
            context: &self.context,
            instructions: &self.instructions,
            tools: &tools,
            result_schema: &self.schema,
            history: &self.history,
            max_output_tokens: Some(500),
        };
        let form = ResultForm::new(&self.schema, true);
        let bytes = body("gpt-4.1", self.preset.dialect(), &form, &request).expect("a body");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    fn turn(history: Turn) -> Vec<Value> {
        let setup = Self {
            history: vec![history],
            ..Self::new()
        };
        setup.body()["messages"].as_array().expect("messages")[2..].to_vec()
    }
}

fn exchange(id: &str, name: &str, arguments: Value, observation: Observation) -> Exchange {
    let arguments = Arguments::Json(arguments);
    let call = ToolCall {
        id: id.into(),
        name: name.into(),
        arguments,
    };
    Exchange { call, observation }
}

fn tool(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

/// Fields as in OpenAI API reference, "Create chat completion": `model`, `messages[].{role, content}`,
/// `tools[].{type, function.{name, description, parameters, strict}}`, `tool_choice`, `max_completion_tokens`.
#[test]
fn the_first_request_is_whole() {
    assert_eq!(
        Setup::new().body(),
        json!({
            "model": "gpt-4.1",
            "messages": [
                {"role": "system", "content": "Be brief.\n\nBe right."},
                {"role": "user", "content": "How warm is it?\n\nContext, as JSON:\n{\"unit\":\"celsius\"}"},
            ],
            "tools": [
                {"type": "function", "function": {
                    "name": "get_weather", "description": "Looks the weather up.",
                    "parameters": {"type": "object", "properties": {}},
                }},
                {"type": "function", "function": {
                    "name": "final_result", "description": RESULT_DESCRIPTION, "strict": true,
                    "parameters": {
                        "type": "object", "properties": {"t": {"type": "integer"}}, "required": ["t"],
                        "additionalProperties": false,
                    },
                }},
            ],
            "tool_choice": "required",
            "max_completion_tokens": 500,
        })
    );
}

#[test]
fn the_output_cap_has_the_name_that_the_server_knows() {
    for preset in [Preset::OpenRouter, Preset::Vllm, Preset::Ollama] {
        let body = Setup {
            preset,
            ..Setup::new()
        }
        .body();
        assert_eq!(body["max_tokens"], 500);
        assert!(body.get("max_completion_tokens").is_none());
    }
}

#[test]
fn an_empty_context_and_no_instructions_leave_no_trace() {
    for context in [Value::Null, json!({})] {
        let setup = Setup {
            context,
            instructions: Vec::new(),
            ..Setup::new()
        };
        assert_eq!(
            setup.body()["messages"],
            json!([{"role": "user", "content": "How warm is it?"}])
        );
    }
}

/// The whole way round: what a provider wrote goes back byte for byte, each call answered, in the provider's order.
#[test]
fn a_turn_goes_back_as_the_provider_wrote_it() {
    let raw = "{ \"b\":1.50,\n\"a\" : 2}";
    let written = json!([
        {"id": "one", "type": "function", "function": {"name": "get_weather", "arguments": raw}, "x_signature": "s=="},
        {"id": "two", "type": "function", "function": {"name": "get_weather", "arguments": "{broken"}},
        {"id": "three", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}},
    ]);
    let answer = json!({
        "choices": [{"finish_reason": "tool_calls", "message": {
            "content": "Looking.", "tool_calls": written, "reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}],
        }}],
    });
    let schema = json!({"type": "object", "properties": {}});
    let reply =
        response::reply(answer.to_string().as_bytes(), &ResultForm::new(&schema, true)).expect("a reply");
    let messages = Setup::turn(Turn {
        text: reply.text,
        echo: reply.echo,
        // Answered in another order, and one not at all.
        exchanges: vec![
            exchange(
                "two",
                "get_weather",
                json!({}),
                Observation::Error("no JSON".into()),
            ),
            exchange(
                "one",
                "get_weather",
                json!({}),
                Observation::Output(json!({"t": 21})),
            ),
        ],
    });
    assert_eq!(
        messages,
        [
            json!({
                "role": "assistant", "content": "Looking.", "tool_calls": written,
                "reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}],
            }),
            tool("one", r#"{"t":21}"#),
            tool("two", "Error: no JSON"),
            tool("three", "This call was not executed."),
        ]
    );
}

#[test]
fn exchanges_without_an_echo_become_calls_with_ids_of_their_own() {
    let messages = Setup::turn(Turn {
        text: None,
        echo: Some(json!({"anthropic": {"thinking": "…"}})),
        exchanges: vec![
            exchange(
                "",
                "get_weather",
                json!({"b": 1, "a": 2}),
                Observation::Output(json!("warm")),
            ),
            exchange("same", "get_weather", json!({}), Observation::Output(Value::Null)),
            exchange(
                "same",
                RESULT_TOOL,
                json!({"t": "x"}),
                Observation::Error("t is no integer".into()),
            ),
        ],
    });
    let ids: Vec<_> = (0..3)
        .map(|n| messages[0]["tool_calls"][n]["id"].clone())
        .collect();
    assert_eq!(ids, ["call_1", "same", "same_1"]);
    assert_eq!(
        messages[0]["tool_calls"][0]["function"]["arguments"],
        r#"{"b":1,"a":2}"#
    );
    assert_eq!(messages[0]["content"], Value::Null);
    assert_eq!(
        messages[1..],
        [
            tool("call_1", "warm"),
            tool("same", "null"),
            tool("same_1", "Error: t is no integer")
        ]
    );
}

#[test]
fn a_wrapped_result_is_written_back_in_its_wrapper() {
    let setup = Setup {
        schema: json!({"type": "array", "items": {"type": "integer"}}),
        history: vec![Turn {
            text: Some("[\"x\"]".into()),
            echo: None,
            exchanges: vec![exchange(
                "r",
                RESULT_TOOL,
                json!(["x"]),
                Observation::Error("no integer".into()),
            )],
        }],
        ..Setup::new()
    };
    let body = setup.body();
    assert_eq!(
        body["messages"][2]["tool_calls"][0]["function"]["arguments"],
        r#"{"value":["x"]}"#
    );
    assert_eq!(
        body["tools"][1]["function"]["parameters"]["required"],
        json!(["value"])
    );
}

#[test]
fn servers_that_decode_earlier_arguments_get_objects() {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}});
    let calls = json!([call("a", "{ \"k\": 1 }"), call("b", "{broken"), call("c", "[1]")]);
    for (preset, expected) in [
        (Preset::OpenAi, ["{ \"k\": 1 }", "{broken", "[1]"]),
        (
            Preset::Ollama,
            [
                "{ \"k\": 1 }",
                r#"{"unparsed":"{broken"}"#,
                r#"{"unparsed":"[1]"}"#,
            ],
        ),
    ] {
        let setup = Setup {
            preset,
            history: vec![Turn {
                text: None,
                echo: Some(json!({"openaiChat": {"toolCalls": calls}})),
                exchanges: Vec::new(),
            }],
            ..Setup::new()
        };
        let message = &setup.body()["messages"][2];
        let sent: Vec<_> = (0..3)
            .map(|n| message["tool_calls"][n]["function"]["arguments"].clone())
            .collect();
        assert_eq!(sent, expected);
    }
}

#[test]
fn an_empty_turn_is_no_message() {
    assert!(Setup::turn(Turn::default()).is_empty());
}
