//! The way back from a strict schema: nulls that stand for absent properties.

use super::schema::{accepts_null, resolve};
use serde_json::{Map, Value};

/// Values are no deeper than the parser allows, and references are followed only as a value goes deeper.
const MAX_DEPTH: usize = 128;

/// Removes each null of an optional property whose original schema does not accept null. In strict form such a property
/// can only be left out by saying null, so it means *absent*. Where null is a value of its own it stays.
pub(super) fn remove(root: &Value, value: &mut Value) {
    descend(root, root, value, 0);
}

fn descend(root: &Value, schema: &Value, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    let Some(Value::Object(schema)) = resolve(root, schema) else {
        return;
    };
    for keyword in ["anyOf", "oneOf"] {
        let branches = schema
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        // The first branch that the value has the outline of is the one it was written for.
        if let Some(branch) = branches
            .into_iter()
            .find(|branch| has_outline(root, branch, value, depth + 1))
        {
            descend(root, branch, value, depth + 1);
        }
    }
    for branch in schema
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        descend(root, branch, value, depth + 1);
    }
    match value {
        Value::Object(object) => properties(root, schema, object, depth),
        Value::Array(items) => {
            if let Some(item_schema) = schema.get("items") {
                for item in items {
                    descend(root, item_schema, item, depth + 1);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn properties(root: &Value, schema: &Map<String, Value>, object: &mut Map<String, Value>, depth: usize) {
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        match object.get_mut(name) {
            Some(Value::Null) if !is_required(schema, name) && !accepts_null(root, property) => {
                object.shift_remove(name);
            }
            Some(inner) => descend(root, property, inner, depth + 1),
            None => {}
        }
    }
}

fn is_required(schema: &Map<String, Value>, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// Whether a value could have been written for the strict form of a schema: its kind, its fixed values, and exactly its
/// properties, because in strict form all of them are there.
fn has_outline(root: &Value, schema: &Value, value: &Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let Some(Value::Object(schema)) = resolve(root, schema) else {
        return false;
    };
    let fits_kind = schema.get("type").is_none_or(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| is_of_kind(value, kind)),
        one => is_of_kind(value, one),
    });
    let fits_values = schema.get("const").is_none_or(|only| only == value)
        && schema
            .get("enum")
            .and_then(Value::as_array)
            .is_none_or(|values| values.contains(value));
    let fits_choice = ["anyOf", "oneOf"].iter().all(|keyword| {
        let branches = schema.get(*keyword).and_then(Value::as_array);
        branches.is_none_or(|branches| {
            branches
                .iter()
                .any(|branch| has_outline(root, branch, value, depth + 1))
        })
    });
    fits_kind && fits_values && fits_choice && has_properties(root, schema, value, depth)
}

fn has_properties(root: &Value, schema: &Map<String, Value>, value: &Value, depth: usize) -> bool {
    let (Some(properties), Some(object)) = (
        schema.get("properties").and_then(Value::as_object),
        value.as_object(),
    ) else {
        return true;
    };
    object.keys().all(|name| properties.contains_key(name))
        && properties.iter().all(|(name, property)| match object.get(name) {
            Some(Value::Null) if !is_required(schema, name) => true,
            Some(inner) => has_outline(root, property, inner, depth + 1),
            None => !is_required(schema, name),
        })
}

fn is_of_kind(value: &Value, kind: &Value) -> bool {
    match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}
