//! The provider's own words, kept so that they go back byte for byte.

use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use std::borrow::Cow;

/// The mark of this adapter's echo. Another adapter's echo is none of ours.
const MARK: &str = "openaiChat";

/// What a provider wants back, read from a turn.
pub(crate) struct Echo<'a> {
    pub(crate) calls: Vec<Cow<'a, Value>>,
    pub(crate) extra: Option<&'a Map<String, Value>>,
}

impl<'a> Echo<'a> {
    /// Reads an echo; whatever this adapter did not write is as good as none.
    pub(crate) fn read(echo: Option<&'a Value>) -> Self {
        let ours = echo.and_then(|echo| echo.get(MARK));
        let calls = ours
            .and_then(|ours| ours.get("toolCalls"))
            .and_then(Value::as_array);
        let whole = |call: &&Value| call["id"].is_string() && call["function"].is_object();
        Self {
            calls: calls
                .into_iter()
                .flatten()
                .filter(whole)
                .map(Cow::Borrowed)
                .collect(),
            extra: ours.and_then(|ours| ours.get("extra")).and_then(Value::as_object),
        }
    }
}

/// A call as the provider wrote it.
pub(super) struct WrittenCall {
    /// Its id, or one that is made up where the provider gave none or gave it twice.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Box<RawValue>,
    /// All of it, other fields included, with that id.
    whole: Value,
}

#[derive(Deserialize)]
struct Shape {
    id: Option<String>,
    r#type: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: Option<Box<RawValue>>,
}

/// Reads the calls of a message.
pub(super) fn written_calls(raw: Vec<Box<RawValue>>) -> Result<Vec<WrittenCall>, String> {
    let mut calls: Vec<WrittenCall> = Vec::with_capacity(raw.len());
    for text in raw {
        let refused = |error: serde_json::Error| format!("it sent a tool call of another shape: {error}");
        let shape: Shape = serde_json::from_str(text.get()).map_err(refused)?;
        if shape.r#type.is_some_and(|kind| kind != "function") {
            return Err("it sent a tool call that is no function call".to_owned());
        }
        let id = unused_id(&shape.id.unwrap_or_default(), |id| {
            calls.iter().any(|call| call.id == id)
        });
        let mut whole: Value = serde_json::from_str(text.get()).map_err(refused)?;
        whole["id"] = Value::String(id.clone());
        whole["type"] = json!("function");
        calls.push(WrittenCall {
            id,
            name: shape.function.name,
            arguments: shape.function.arguments.unwrap_or_else(super::no_arguments),
            whole,
        });
    }
    Ok(calls)
}

/// The echo of an answer, if there is anything to keep.
pub(super) fn write(calls: Vec<WrittenCall>, reasoning_details: Option<Value>) -> Option<Value> {
    let mut kept = Map::new();
    if !calls.is_empty() {
        let calls = calls.into_iter().map(|call| call.whole).collect();
        kept.insert("toolCalls".to_owned(), Value::Array(calls));
    }
    if let Some(details) = reasoning_details.filter(|details| !details.is_null()) {
        kept.insert("extra".to_owned(), json!({"reasoning_details": details}));
    }
    (!kept.is_empty()).then(|| json!({MARK: kept}))
}

/// The id itself, or one that is not in use yet.
pub(crate) fn unused_id(id: &str, in_use: impl Fn(&str) -> bool) -> String {
    if !id.is_empty() && !in_use(id) {
        return id.to_owned();
    }
    let stem = if id.is_empty() { "call" } else { id };
    (1_u32..)
        .map(|number| format!("{stem}_{number}"))
        .find(|candidate| !in_use(candidate))
        .unwrap_or_else(|| stem.to_owned())
}
