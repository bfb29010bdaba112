//! The request: OpenAI API reference, "Create chat completion" (`/docs/api-reference/chat/create`).

mod history;

use super::schema::ResultForm;
use crate::provider::{Dialect, OutputCap, ToolChoice};
use history::Message;
use portolan_core::{RESULT_TOOL, model::ModelRequest, tool::ToolSpec};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

const RESULT_DESCRIPTION: &str =
    "Submits the result and ends the task. Call it once, alone, when the task is done.";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    tools: Vec<Tool<'a>>,
    tool_choice: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

/// Writes the request's body.
pub(super) fn body(
    model: &str,
    dialect: Dialect,
    form: &ResultForm<'_>,
    request: &ModelRequest<'_>,
) -> Result<Vec<u8>, serde_json::Error> {
    let cap = |field| request.max_output_tokens.filter(|_| dialect.output_cap == field);
    serde_json::to_vec(&Body {
        model,
        messages: messages(dialect, form, request)?,
        tools: tools(form, request.tools),
        tool_choice: match dialect.tool_choice {
            ToolChoice::Required => "required",
            ToolChoice::Auto => "auto",
        },
        max_completion_tokens: cap(OutputCap::MaxCompletionTokens),
        max_tokens: cap(OutputCap::MaxTokens),
    })
}

fn tools<'a>(form: &'a ResultForm<'_>, specs: &'a [ToolSpec]) -> Vec<Tool<'a>> {
    let function = |function| Tool {
        r#type: "function",
        function,
    };
    let specs = specs.iter().map(|spec| {
        function(Function {
            name: &spec.name,
            description: &spec.description,
            parameters: parameters(&spec.input_schema),
            strict: None,
        })
    });
    let result = function(Function {
        name: RESULT_TOOL,
        description: RESULT_DESCRIPTION,
        parameters: Cow::Borrowed(&form.parameters),
        strict: Some(form.strict),
    });
    specs.chain([result]).collect()
}

/// A tool's schema as function parameters, which must be an object that names its properties, if only none.
fn parameters(schema: &Value) -> Cow<'_, Value> {
    match schema {
        Value::Object(object) if object.contains_key("properties") => Cow::Borrowed(schema),
        Value::Object(object) if object.get("type").is_none_or(|kind| kind == "object") => {
            let mut object = object.clone();
            object.insert("type".to_owned(), json!("object"));
            object.insert("properties".to_owned(), json!({}));
            Cow::Owned(Value::Object(object))
        }
        Value::Bool(_) => Cow::Owned(json!({"type": "object", "properties": {}})),
        _ => Cow::Borrowed(schema),
    }
}

fn messages<'a>(
    dialect: Dialect,
    form: &ResultForm<'_>,
    request: &ModelRequest<'a>,
) -> Result<Vec<Message<'a>>, serde_json::Error> {
    let mut messages = Vec::new();
    if !request.instructions.is_empty() {
        messages.push(Message::System {
            content: request.instructions.join("\n\n"),
        });
    }
    messages.push(Message::User {
        content: task(request.task, request.context)?,
    });
    for turn in request.history {
        history::append(turn, dialect.replayed_arguments, form, &mut messages);
    }
    Ok(messages)
}

/// The task and, if there is one, its context as JSON.
fn task<'a>(task: &'a str, context: &Value) -> Result<Cow<'a, str>, serde_json::Error> {
    let empty = match context {
        Value::Null => true,
        Value::Object(object) => object.is_empty(),
        _ => false,
    };
    if empty {
        return Ok(Cow::Borrowed(task));
    }
    let context = serde_json::to_string(context)?;
    Ok(Cow::Owned(format!("{task}\n\nContext, as JSON:\n{context}")))
}

#[cfg(test)]
mod tests;
