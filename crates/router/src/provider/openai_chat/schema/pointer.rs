//! References within a schema.

use serde_json::{Map, Value, json};

/// References that are followed in a row before a schema is taken for a circle.
const MAX_HOPS: usize = 32;

/// The schema that stands behind a chain of local references.
pub(crate) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    let mut at = schema;
    for _ in 0..MAX_HOPS {
        match at.get("$ref") {
            None => return Some(at),
            Some(reference) => at = root.pointer(reference.as_str()?.strip_prefix('#')?)?,
        }
    }
    None
}

/// Whether `null` satisfies a schema, as far as that can be said without a validator. In doubt it does, so that no null
/// is taken away that was meant.
pub(crate) fn accepts_null(root: &Value, schema: &Value) -> bool {
    accepts_null_within(root, schema, MAX_HOPS)
}

fn accepts_null_within(root: &Value, schema: &Value, hops: usize) -> bool {
    let Some(hops) = hops.checked_sub(1) else {
        return true;
    };
    let Value::Object(object) = schema else {
        return *schema != Value::Bool(false);
    };
    object.iter().all(|(keyword, given)| match keyword.as_str() {
        "type" => {
            given == "null"
                || given
                    .as_array()
                    .is_some_and(|kinds| kinds.contains(&json!("null")))
        }
        "const" => given.is_null(),
        "enum" => given
            .as_array()
            .is_some_and(|values| values.contains(&Value::Null)),
        "$ref" => {
            let target = given
                .as_str()
                .and_then(|text| text.strip_prefix('#'))
                .and_then(|path| root.pointer(path));
            target.is_none_or(|target| accepts_null_within(root, target, hops))
        }
        "anyOf" | "oneOf" => branches(given).any(|branch| accepts_null_within(root, branch, hops)),
        "allOf" => branches(given).all(|branch| accepts_null_within(root, branch, hops)),
        _ => true,
    })
}

pub(crate) fn branches(given: &Value) -> impl Iterator<Item = &Value> {
    given.as_array().into_iter().flatten()
}

/// The root as one object schema, its reference followed, or nothing if results are not objects.
pub(super) fn inlined_root(original: &Value) -> Option<Value> {
    let root = original.as_object()?;
    let target = resolve(original, original)?.as_object()?;
    if target.get("type").is_none_or(|kind| kind != "object") {
        return None;
    }
    // Function parameters with a choice at their root are refused even when every branch is an object.
    if ["anyOf", "oneOf", "allOf"]
        .iter()
        .any(|keyword| target.contains_key(*keyword))
    {
        return None;
    }
    let mut object = target.clone();
    for (keyword, given) in root {
        if keyword != "$ref" && !object.contains_key(keyword) {
            object.insert(keyword.clone(), given.clone());
        }
    }
    object.entry("properties").or_insert_with(|| json!({}));
    // An object that names no property at all is a free-form map; saying `true` keeps it one.
    if !target.contains_key("properties") {
        object.entry("additionalProperties").or_insert(Value::Bool(true));
    }
    Some(Value::Object(object))
}

/// A schema that moves from the root into a property of it: references to definitions stay, all others move along.
pub(super) fn relocated(schema: &Value, property: &str) -> Value {
    match schema {
        Value::Object(object) => {
            let moved = object.iter().map(|(keyword, given)| {
                let given = match (keyword.as_str(), given) {
                    ("$ref", Value::String(reference)) => Value::String(moved_reference(reference, property)),
                    // What stands here is data, and no schema.
                    ("const" | "enum" | "default" | "examples", data) => data.clone(),
                    (_, inner) => relocated(inner, property),
                };
                (keyword.clone(), given)
            });
            Value::Object(moved.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| relocated(item, property)).collect(),
        other => other.clone(),
    }
}

fn moved_reference(reference: &str, property: &str) -> String {
    let stays = ["#/$defs/", "#/definitions/"]
        .iter()
        .any(|start| reference.starts_with(start));
    match reference.strip_prefix('#') {
        Some(path) if !stays && (path.is_empty() || path.starts_with('/')) => {
            format!("#/properties/{property}{path}")
        }
        _ => reference.to_owned(),
    }
}
