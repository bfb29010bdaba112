//! The result's schema as function parameters.
//!
//! Function parameters must be an object, so a result of another kind travels as `{"value": …}`. Strict parameters follow
//! OpenAI's guide "Structured outputs", section "Supported schemas" (`/docs/guides/structured-outputs`): every property is
//! required, `additionalProperties` is false, and many keywords are not known. The strict form here is never narrower
//! than the original: an optional property becomes one that may be null, a keyword that cannot be said is moved into the
//! description, and a schema that would lose values (a free-form map, a tuple, a condition) is sent as it is, not strict.

mod pointer;
mod strict;

pub(super) use pointer::{accepts_null, resolve};

use super::nulls;
use pointer::{inlined_root, relocated};
use serde_json::{Map, Value, json};

/// The property that a result travels in when it is no object.
const WRAPPER: &str = "value";

/// How a result that comes as text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    /// As JSON where it is JSON.
    Json,
    /// As it stands, because the schema wants a string: the text `42` is a string here.
    Plain,
}

/// The result tool's parameters, and the way back from them.
#[derive(Debug)]
pub(super) struct ResultForm<'a> {
    original: &'a Value,
    pub(super) parameters: Value,
    pub(super) strict: bool,
    pub(super) text: TextForm,
    wrapped: bool,
}

impl<'a> ResultForm<'a> {
    /// Makes the parameters for a result's schema.
    pub(super) fn new(original: &'a Value, may_be_strict: bool) -> Self {
        let (whole, wrapped) = match inlined_root(original) {
            Some(object) => (object, false),
            None => (wrapped_schema(original), true),
        };
        let strict = may_be_strict.then(|| strict::transform(&whole)).flatten();
        let is_string = resolve(original, original).is_some_and(|root| root["type"] == "string");
        Self {
            original,
            strict: strict.is_some(),
            parameters: strict.unwrap_or(whole),
            text: if is_string {
                TextForm::Plain
            } else {
                TextForm::Json
            },
            wrapped,
        }
    }

    /// A result as the arguments of the result tool.
    pub(super) fn wrap(&self, value: &Value) -> Value {
        if self.wrapped {
            json!({WRAPPER: value})
        } else {
            value.clone()
        }
    }

    /// Arguments of the result tool as a result. Arguments that do not have the form that was asked for come back as they
    /// are; the original schema judges them.
    pub(super) fn restore(&self, arguments: Value) -> Value {
        let value = match arguments {
            Value::Object(mut object) if self.wrapped && object.len() == 1 => match object.remove(WRAPPER) {
                Some(value) => value,
                None => Value::Object(object),
            },
            other => other,
        };
        self.without_nulls(value)
    }

    /// The value without the nulls that only strictness asked for: those of optional properties that the original schema
    /// does not let be null.
    pub(super) fn without_nulls(&self, mut value: Value) -> Value {
        if self.strict {
            nulls::remove(self.original, &mut value);
        }
        value
    }
}

/// The schema as the one property of an object. Definitions stay at the root, where references look for them.
fn wrapped_schema(original: &Value) -> Value {
    let mut inner = relocated(original, WRAPPER);
    let mut definitions = Map::new();
    if let Value::Object(object) = &mut inner {
        for key in ["$defs", "definitions"] {
            definitions.extend(object.remove(key).map(|found| (key.to_owned(), found)));
        }
    }
    let mut outer = Map::new();
    outer.insert("type".to_owned(), json!("object"));
    outer.insert("properties".to_owned(), json!({WRAPPER: inner}));
    outer.insert("required".to_owned(), json!([WRAPPER]));
    outer.insert("additionalProperties".to_owned(), json!(false));
    outer.extend(definitions);
    Value::Object(outer)
}

#[cfg(test)]
mod tests;
