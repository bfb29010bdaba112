//! What was asked and answered so far, as messages.
//!
//! The protocol demands that each call of an assistant message is answered by a `tool` message with its id, and that no
//! `tool` message answers anything else (OpenAI API reference, "Create chat completion", `messages`). That holds for what
//! is written here whatever the history looks like.

use super::super::{response, schema::ResultForm};
use crate::{json::parse_strictly, provider::ReplayedArguments};
use portolan_core::{
    RESULT_TOOL,
    call::{Arguments, Exchange, Observation, ToolCall, Turn},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// What a call is answered with when nothing was recorded for it.
const NOT_EXECUTED: &str = "This call was not executed.";

/// A message.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Message<'a> {
    System {
        content: String,
    },
    User {
        content: Cow<'a, str>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Cow<'a, Value>>,
        /// What the provider wants back unchanged beside the calls.
        #[serde(flatten)]
        extra: Option<&'a Map<String, Value>>,
    },
    Tool {
        tool_call_id: String,
        content: Cow<'a, str>,
    },
}

/// Adds a turn. The calls are the provider's own where its adapter kept them, in the provider's order; each is answered by
/// the first exchange with its id that no earlier call took. Exchanges without such a call, of another provider's turn or
/// of a result that came as text, become calls of their own behind them.
pub(super) fn append<'a>(
    turn: &'a Turn,
    replay: ReplayedArguments,
    form: &ResultForm<'_>,
    messages: &mut Vec<Message<'a>>,
) {
    let echo = response::Echo::read(turn.echo.as_ref());
    let mut open: Vec<Option<&Exchange>> = turn.exchanges.iter().map(Some).collect();
    let mut calls = Vec::new();
    let mut answers: Vec<(String, Cow<'a, str>)> = Vec::new();
    for call in echo.calls {
        let id = call["id"].as_str().unwrap_or_default().to_owned();
        let found = open
            .iter_mut()
            .find(|slot| slot.is_some_and(|exchange| exchange.call.id == id));
        let content = match found.and_then(Option::take) {
            Some(exchange) => observation(&exchange.observation),
            None => Cow::Borrowed(NOT_EXECUTED),
        };
        calls.push(replayed(call, replay));
        answers.push((id, content));
    }
    for exchange in open.into_iter().flatten() {
        let id = response::unused_id(&exchange.call.id, |id| answers.iter().any(|(used, _)| used == id));
        calls.push(replayed(Cow::Owned(written(&exchange.call, &id, form)), replay));
        answers.push((id, observation(&exchange.observation)));
    }
    let content = turn.text.as_deref().filter(|text| !text.is_empty());
    if calls.is_empty() && content.is_none() {
        return;
    }
    messages.push(Message::Assistant {
        content,
        tool_calls: calls,
        extra: echo.extra,
    });
    let answers = answers.into_iter();
    messages.extend(answers.map(|(tool_call_id, content)| Message::Tool {
        tool_call_id,
        content,
    }));
}

fn observation(observation: &Observation) -> Cow<'_, str> {
    match observation {
        Observation::Output(Value::String(text)) => Cow::Borrowed(text),
        Observation::Output(value) => Cow::Owned(value.to_string()),
        Observation::Error(error) => Cow::Owned(format!("Error: {error}")),
    }
}

/// A call in the protocol's form, for one whose original is not at hand.
fn written(call: &ToolCall, id: &str, form: &ResultForm<'_>) -> Value {
    let arguments = match &call.arguments {
        Arguments::Json(value) if call.name == RESULT_TOOL => form.wrap(value).to_string(),
        Arguments::Json(value) => value.to_string(),
        Arguments::Malformed { raw, .. } => raw.clone(),
    };
    json!({"id": id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

/// A call as the server takes it back.
fn replayed(call: Cow<'_, Value>, replay: ReplayedArguments) -> Cow<'_, Value> {
    let arguments = call["function"]["arguments"].as_str();
    let fits = match replay {
        ReplayedArguments::Verbatim => arguments.is_some(),
        ReplayedArguments::ObjectsOnly => {
            arguments.is_some_and(|text| parse_strictly(text).is_ok_and(|value| value.is_object()))
        }
    };
    if fits {
        return call;
    }
    let raw = &call["function"]["arguments"];
    let text = match (replay, raw) {
        // A server that gave an object instead of a text gets the text that the protocol has for it.
        (_, Value::Object(_)) | (ReplayedArguments::Verbatim, _) => raw.to_string(),
        (ReplayedArguments::ObjectsOnly, Value::String(text)) => json!({"unparsed": text}).to_string(),
        (ReplayedArguments::ObjectsOnly, other) => json!({"unparsed": other}).to_string(),
    };
    let mut changed = call.into_owned();
    if let Some(function) = changed.get_mut("function").and_then(Value::as_object_mut) {
        function.insert("arguments".to_owned(), Value::String(text));
    }
    Cow::Owned(changed)
}
