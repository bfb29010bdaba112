//! Result codecs: what a submitted value must satisfy, as a schema that the model reads and as a check.
//!
//! Schemas are JSON Schema draft 2020-12. References never leave the document, patterns run in linear time, and sizes and
//! depths are bounded, so that neither a schema nor a value can make a check run away.

mod expansion;

use crate::machine::{ResultCodec, Violation};
use jsonschema::{Draft, PatternOptions, Validator};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{marker::PhantomData, panic::AssertUnwindSafe};

/// The most values that a schema may consist of.
pub const MAX_SCHEMA_VALUES: usize = 20_000;
/// The deepest that a schema may nest.
pub const MAX_SCHEMA_DEPTH: usize = 64;
/// The most values that a result may consist of.
pub const MAX_RESULT_VALUES: usize = 1_000_000;
/// The deepest that a result may nest.
pub const MAX_RESULT_DEPTH: usize = 100;
/// The most violations that are named one by one.
const MAX_VIOLATIONS: usize = 50;
/// The most characters of one violation; the message may quote the value.
const MAX_VIOLATION_CHARS: usize = 400;
/// The largest compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is too large or nests too deep.
    #[error("the schema has more than {MAX_SCHEMA_VALUES} values or nests deeper than {MAX_SCHEMA_DEPTH}")]
    TooLarge,
    /// Checking one value could go round for ever, or branch without end.
    #[error("the schema refers to itself without descending into the value, or branches too often")]
    Unbounded,
    /// It is no JSON Schema, or it refers to something outside itself.
    #[error("{0}")]
    Invalid(String),
}

/// Checks results against a JSON Schema.
#[derive(Debug, Clone)]
pub struct SchemaCodec {
    schema: Value,
    validator: Validator,
}

impl SchemaCodec {
    /// Compiles a schema.
    pub fn new(schema: Value) -> Result<Self, SchemaError> {
        if !within(&schema, MAX_SCHEMA_VALUES, MAX_SCHEMA_DEPTH) {
            return Err(SchemaError::TooLarge);
        }
        if !expansion::is_bounded(&schema) {
            return Err(SchemaError::Unbounded);
        }
        let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .with_pattern_options(patterns)
            .build(&schema)
            .map_err(|error| SchemaError::Invalid(describe(&error)))?;
        Ok(Self { schema, validator })
    }

    /// The schema.
    pub const fn schema(&self) -> &Value {
        &self.schema
    }
}

impl ResultCodec for SchemaCodec {
    fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        if !within(value, MAX_RESULT_VALUES, MAX_RESULT_DEPTH) {
            let message = format!(
                "the result has more than {MAX_RESULT_VALUES} values or nests deeper than {MAX_RESULT_DEPTH}"
            );
            return Err(vec![whole(message)]);
        }
        let mut errors = self.validator.iter_errors(value);
        let mut violations: Vec<Violation> = errors
            .by_ref()
            .take(MAX_VIOLATIONS)
            .map(|e| violation(&e))
            .collect();
        if violations.is_empty() {
            return Ok(());
        }
        if errors.next().is_some() {
            violations.push(whole("there are more violations than are named here".to_owned()));
        }
        Err(violations)
    }
}

/// Checks results against the schema of a Rust type, and then by decoding them.
pub struct TypedCodec<T> {
    schema: SchemaCodec,
    decoded: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for TypedCodec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TypedCodec")
            .field("schema", &self.schema.schema)
            .finish()
    }
}

impl<T: JsonSchema + DeserializeOwned> TypedCodec<T> {
    /// Derives the schema of the type and compiles it.
    pub fn new() -> Result<Self, SchemaError> {
        Ok(Self {
            schema: SchemaCodec::new(schema_of::<T>())?,
            decoded: PhantomData,
        })
    }

    /// The schema of the type.
    pub const fn schema(&self) -> &Value {
        self.schema.schema()
    }

    /// Decodes a value. What a type checks while it is decoded is a violation like any other, also a panic.
    pub fn decode(&self, value: &Value) -> Result<T, Violation> {
        let decoded = std::panic::catch_unwind(AssertUnwindSafe(|| T::deserialize(value)));
        match decoded {
            Ok(Ok(decoded)) => Ok(decoded),
            Ok(Err(error)) => Err(whole(shortened(error.to_string()))),
            Err(_) => Err(whole("the value cannot be decoded".to_owned())),
        }
    }
}

impl<T: JsonSchema + DeserializeOwned> ResultCodec for TypedCodec<T> {
    fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        self.schema.check(value)?;
        self.decode(value).map(drop).map_err(|violation| vec![violation])
    }
}

/// The JSON Schema of a type, as a model reads it.
pub fn schema_of<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

fn violation(error: &jsonschema::ValidationError<'_>) -> Violation {
    Violation {
        path: error.instance_path().as_str().to_owned(),
        message: shortened(error.to_string()),
    }
}

const fn whole(message: String) -> Violation {
    Violation {
        path: String::new(),
        message,
    }
}

fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let at = error.instance_path().as_str();
    let message = shortened(error.to_string());
    if at.is_empty() {
        message
    } else {
        format!("at {at}: {message}")
    }
}

fn shortened(mut text: String) -> String {
    if let Some((cut, _)) = text.char_indices().nth(MAX_VIOLATION_CHARS) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// Whether a value has at most so many values and nests at most so deep. It walks without recursion, because the depth
/// is what it is about.
fn within(value: &Value, most: usize, deepest: usize) -> bool {
    let mut waiting = vec![(value, 1_usize)];
    let mut seen = 0_usize;
    while let Some((value, depth)) = waiting.pop() {
        seen += 1;
        if seen + waiting.len() > most || depth > deepest {
            return false;
        }
        match value {
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => waiting.extend(fields.values().map(|field| (field, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    true
}

#[cfg(test)]
mod tests;
