//! Whether a schema can be checked in bounded work.
//!
//! Keywords such as `allOf`, `anyOf`, `not` and `$ref` apply further schemas to the *same* value. If such a path leads back
//! to where it began, a check never ends; if it branches again and again, a check takes exponential time. Keywords that
//! descend into parts of the value are harmless, because values are finite.

use serde_json::{Map, Value};
use std::collections::HashMap;

/// The most schemas that may apply to one value.
const MAX_APPLIED: u64 = 10_000;

/// Keywords whose value is one schema for the same value.
const ONE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords whose value is a list of schemas for the same value.
const LIST: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Whether every schema of the document applies a bounded number of schemas to one value.
pub(super) fn is_bounded(document: &Value) -> bool {
    let mut walk = Walk {
        document,
        anchors: HashMap::new(),
        applied: HashMap::new(),
    };
    let mut all = Vec::new();
    collect(document, &mut all, &mut walk.anchors);
    all.into_iter().all(|schema| walk.applied_by(schema).is_some())
}

/// Every object of the document, whether it is a schema or only looks like one, and what its anchors name.
fn collect<'a>(
    value: &'a Value,
    all: &mut Vec<&'a Map<String, Value>>,
    anchors: &mut HashMap<String, &'a Value>,
) {
    match value {
        Value::Object(fields) => {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = fields.get(keyword) {
                    anchors.insert(format!("#{name}"), value);
                }
            }
            if let Some(Value::String(id)) = fields.get("$id") {
                anchors.insert(id.clone(), value);
            }
            all.push(fields);
            for field in fields.values() {
                collect(field, all, anchors);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect(item, all, anchors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

struct Walk<'a> {
    document: &'a Value,
    anchors: HashMap<String, &'a Value>,
    /// How many schemas an object applies to one value, by its address; `None` while it is being counted.
    applied: HashMap<*const Map<String, Value>, Option<u64>>,
}

impl<'a> Walk<'a> {
    /// How many schemas this one applies to one value, itself included. `None`: without end, or too many.
    fn applied_by(&mut self, schema: &'a Map<String, Value>) -> Option<u64> {
        if let Some(known) = self.applied.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        self.applied.insert(std::ptr::from_ref(schema), None);
        let mut sum = 1_u64;
        for next in self.in_place(schema) {
            if let Value::Object(next) = next {
                sum = sum.checked_add(self.applied_by(next)?)?;
            }
            if sum > MAX_APPLIED {
                return None;
            }
        }
        self.applied.insert(std::ptr::from_ref(schema), Some(sum));
        Some(sum)
    }

    fn in_place(&self, schema: &'a Map<String, Value>) -> Vec<&'a Value> {
        let mut next: Vec<&'a Value> = Vec::new();
        next.extend(ONE.iter().filter_map(|keyword| schema.get(*keyword)));
        for keyword in LIST {
            if let Some(Value::Array(schemas)) = schema.get(keyword) {
                next.extend(schemas);
            }
        }
        for keyword in ["dependentSchemas", "dependencies"] {
            if let Some(Value::Object(schemas)) = schema.get(keyword) {
                next.extend(schemas.values());
            }
        }
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(Value::String(reference)) = schema.get(keyword) {
                next.extend(self.target(reference));
            }
        }
        next
    }

    /// What a reference names, if it is here. What is not here is refused when the schema is compiled.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        if let Some(anchored) = self.anchors.get(reference) {
            return Some(anchored);
        }
        let (_, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        self.document.pointer(&unescaped(fragment))
    }
}

/// Undoes percent-encoding; whatever is no UTF-8 afterwards names nothing.
fn unescaped(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_default()
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
