//! The answer: OpenAI API reference, "The chat completion object" (`/docs/api-reference/chat/object`).

mod echo;
mod usage;

pub(super) use echo::{Echo, unused_id};

use super::schema::{ResultForm, TextForm};
use crate::{json::parse_strictly, provider::failure::foreign_message};
use echo::WrittenCall;
use portolan_core::{
    RESULT_TOOL,
    call::{Action, Arguments, FinalResult, ToolCall},
    model::ModelReply,
};
use serde::Deserialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

#[derive(Deserialize)]
struct Completion {
    id: Option<String>,
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    /// OpenRouter reports a failure of a model that had begun under status 200 ("API errors", `/docs/errors`).
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
    /// The same for a single choice.
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Box<RawValue>>>,
    /// OpenRouter wants these back unchanged ("Reasoning tokens", preserving reasoning blocks).
    reasoning_details: Option<Value>,
}

/// How the generation ended.
enum Finish {
    /// The model had said what it wanted to say.
    Proper,
    /// It had not, and why.
    Improper(String),
}

impl Finish {
    fn of(reason: Option<&str>) -> Self {
        match reason {
            // With a forced call OpenAI ends with `stop` although there are calls.
            Some("stop" | "tool_calls") => Self::Proper,
            Some("length") => Self::Improper("the answer was cut at the output limit".to_owned()),
            Some("content_filter") => {
                Self::Improper("the provider's content filter cut the answer".to_owned())
            }
            Some(other) => Self::Improper(format!("the answer ended with the unknown reason {other:?}")),
            None => Self::Improper("the answer ended without a reason".to_owned()),
        }
    }
}

/// Reads an answer, or says why it is none.
///
/// The result tool's arguments come back in the form of the original schema. Arguments stay malformed, with their text,
/// when they are not exactly one JSON value or when the generation did not end properly: what was cut may look complete.
pub(super) fn reply(bytes: &[u8], form: &ResultForm<'_>) -> Result<ModelReply, String> {
    let completion: Completion =
        serde_json::from_slice(bytes).map_err(|error| format!("it sent no chat completion: {error}"))?;
    if let Some(error) = completion.error.filter(|error| !error.is_null()) {
        return Err(reported(error));
    }
    let choice = completion.choices.into_iter().flatten().next();
    let choice = choice.ok_or("it sent a completion without choices")?;
    if let Some(error) = choice.error.filter(|error| !error.is_null()) {
        return Err(reported(error));
    }
    if choice.finish_reason.as_deref() == Some("error") {
        return Err("it reported an error without saying which".to_owned());
    }
    let finish = Finish::of(choice.finish_reason.as_deref());
    let said = choice.message;
    let content = said.content.filter(|text| !text.is_empty());
    let calls = echo::written_calls(said.tool_calls.unwrap_or_default())?;
    let (action, text) = if calls.is_empty() {
        let refusal = said.refusal.filter(|text| !text.is_empty());
        (spoken(content, refusal, &finish, form)?, None)
    } else {
        (called(&calls, &finish, form), content)
    };
    Ok(ModelReply {
        action,
        text,
        echo: echo::write(calls, said.reasoning_details),
        model: completion.model,
        usage: completion.usage.as_ref().and_then(usage::read),
        provider_id: completion.id,
    })
}

fn reported(error: Value) -> String {
    let body = Value::Object([("error".to_owned(), error)].into_iter().collect());
    let what = foreign_message(&body).unwrap_or("no message");
    format!("it reported an error under a success status: {what}")
}

fn called(calls: &[WrittenCall], finish: &Finish, form: &ResultForm<'_>) -> Action {
    let one = |call: &WrittenCall| ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: arguments(&call.arguments, finish),
    };
    match calls {
        [call] if call.name == RESULT_TOOL => Action::Final(FinalResult {
            id: Some(call.id.clone()),
            value: match arguments(&call.arguments, finish) {
                Arguments::Json(value) => Arguments::Json(form.restore(value)),
                malformed @ Arguments::Malformed { .. } => malformed,
            },
        }),
        [call] => Action::Call(one(call)),
        several => Action::Batch(several.iter().map(one).collect()),
    }
}

/// The result of an answer that is only text.
fn spoken(
    content: Option<String>,
    refusal: Option<String>,
    finish: &Finish,
    form: &ResultForm<'_>,
) -> Result<Action, String> {
    let malformed = |raw: String, reason: String| Arguments::Malformed { raw, reason };
    let value = match (content, refusal, finish) {
        (_, Some(refusal), _) => malformed(refusal, "the model refused the task".to_owned()),
        (content, None, Finish::Improper(reason)) => malformed(content.unwrap_or_default(), reason.clone()),
        (Some(text), None, Finish::Proper) => text_result(text, form),
        (None, None, Finish::Proper) => {
            return Err("it sent an answer with neither text nor calls".to_owned());
        }
    };
    Ok(Action::Final(FinalResult { id: None, value }))
}

/// Text as a result: the JSON that it is, or else the text. Text that only wants to be JSON is the text, and the result's
/// schema decides; text that is JSON with a key twice is neither.
fn text_result(text: String, form: &ResultForm<'_>) -> Arguments {
    match parse_strictly(&text) {
        Ok(value) if value.is_string() || form.text == TextForm::Json => {
            Arguments::Json(form.without_nulls(value))
        }
        Ok(_) => Arguments::Json(Value::String(text)),
        Err(_) if form.text == TextForm::Plain => Arguments::Json(Value::String(text)),
        Err(error) if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() => {
            let reason = error.to_string();
            Arguments::Malformed { raw: text, reason }
        }
        Err(_) => Arguments::Json(Value::String(text)),
    }
}

fn arguments(written: &RawValue, finish: &Finish) -> Arguments {
    // The protocol has a JSON text in a string. A server that gives the value itself is read as strictly.
    let raw = serde_json::from_str::<String>(written.get()).unwrap_or_else(|_| written.get().to_owned());
    if let Finish::Improper(reason) = finish {
        let reason = reason.clone();
        return Arguments::Malformed { raw, reason };
    }
    match parse_strictly(&raw) {
        Ok(value) => Arguments::Json(value),
        Err(error) => Arguments::Malformed {
            reason: format!("the arguments are no JSON: {error}"),
            raw,
        },
    }
}

/// The raw form of arguments that a call does not have at all: no text, so that nothing is made up.
fn no_arguments() -> Box<RawValue> {
    to_raw_value("").expect("an empty string is JSON")
}

#[cfg(test)]
mod tests;
