//! Taking a model's arguments strictly: nothing is coerced, and every refusal says what is wrong.

use portolan_core::tool::ToolError;
use serde_json::{Map, Value};

/// The arguments of a call, known to be an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a>(&'a Map<String, Value>);

impl<'a> Arguments<'a> {
    pub(super) fn of(value: &'a Value) -> Result<Self, ToolError> {
        let fields = value.as_object();
        fields
            .map(Self)
            .ok_or_else(|| failed("The arguments are no object.".to_owned()))
    }

    /// A text that may be absent. An explicit `null` is no absent one.
    pub(super) fn text(self, name: &str) -> Result<Option<&'a str>, ToolError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(failed(format!("{name:?} is no string."))),
        }
    }

    pub(super) fn required_text(self, name: &str) -> Result<&'a str, ToolError> {
        self.text(name)?
            .ok_or_else(|| failed(format!("{name:?} is missing.")))
    }

    /// A list of texts; an absent one is empty.
    pub(super) fn texts(self, name: &str) -> Result<Vec<&'a str>, ToolError> {
        let wrong = || failed(format!("{name:?} is no list of strings."));
        match self.0.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => items.iter().map(|item| item.as_str().ok_or_else(wrong)).collect(),
            Some(_) => Err(wrong()),
        }
    }
}

pub(super) fn failed(text: String) -> ToolError {
    ToolError::Failed(text)
}
