//! The strict form of a schema.

use super::pointer::{accepts_null, branches};
use serde_json::{Map, Value, json};

/// Bounds that were in force when strict schemas came out. Later models allow more, but a schema over a bound is refused
/// for good, while one that is not strict is only less convenient.
const MAX_DEPTH: usize = 5;
const MAX_PROPERTIES: usize = 100;
const MAX_ENUM_VALUES: usize = 500;

/// Keywords that change which values there are, not only which of them are right: without them the model could not say
/// what the schema allows.
const INEXPRESSIBLE: &[&str] = &[
    "patternProperties",
    "prefixItems",
    "additionalItems",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
    "$anchor",
];

/// Keywords that only narrow. Not every provider behind the protocol knows them, so the model is told in words.
const NARROWING: &[&str] = &[
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "dependentRequired",
    "not",
];

/// Makes the strict form of an object schema, or nothing if it has none.
pub(super) fn transform(root: &Value) -> Option<Value> {
    let mut pass = Pass {
        root,
        properties: 0,
        enum_values: 0,
    };
    let mut strict = pass.schema(root, 0)?;
    let mut definitions = Map::new();
    for key in ["$defs", "definitions"] {
        for (name, definition) in root.get(key).and_then(Value::as_object).into_iter().flatten() {
            definitions.insert(name.clone(), Value::Object(pass.schema(definition, 0)?));
        }
    }
    if !definitions.is_empty() {
        strict.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Some(Value::Object(strict))
}

struct Pass<'a> {
    root: &'a Value,
    properties: usize,
    enum_values: usize,
}

impl Pass<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Option<Map<String, Value>> {
        let given = schema.as_object()?;
        // An `$id` at the root names the document; a deeper one would change what references mean.
        let renamed = depth > 0 && given.contains_key("$id");
        if renamed || INEXPRESSIBLE.iter().any(|keyword| given.contains_key(*keyword)) {
            return None;
        }
        if let Some(reference) = given.get("$ref") {
            return self.reference(reference);
        }
        if let Some(all) = given.get("allOf") {
            return self.schema(&merged(given, all)?, depth);
        }
        let mut strict = match (given.get("anyOf"), given.get("oneOf")) {
            (Some(any), None) | (None, Some(any)) => self.choice(given, any, depth)?,
            (Some(_), Some(_)) => return None,
            (None, None) => match values(given)? {
                Some(values) => self.values(&values)?,
                None => self.typed(given, depth)?,
            },
        };
        describe(given, &mut strict);
        Some(strict)
    }

    /// A reference to the root or to a definition. Nothing may stand beside it.
    fn reference(&self, reference: &Value) -> Option<Map<String, Value>> {
        let path = reference.as_str()?.strip_prefix('#')?;
        let target = match path
            .strip_prefix("/definitions/")
            .or_else(|| path.strip_prefix("/$defs/"))
        {
            Some(name) if !name.contains('/') && self.root.pointer(path).is_some() => {
                format!("#/$defs/{name}")
            }
            Some(_) => return None,
            None if path.is_empty() => "#".to_owned(),
            None => return None,
        };
        Some(object([("$ref", Value::String(target))]))
    }

    fn choice(
        &mut self,
        given: &Map<String, Value>,
        any: &Value,
        depth: usize,
    ) -> Option<Map<String, Value>> {
        if ["type", "properties", "items", "enum", "const"]
            .iter()
            .any(|keyword| given.contains_key(*keyword))
        {
            return None;
        }
        let strict: Option<Vec<_>> = branches(any).map(|branch| self.schema(branch, depth)).collect();
        let strict = strict?;
        if strict.is_empty() || !are_told_apart(&strict) {
            return None;
        }
        let strict = strict.into_iter().map(Value::Object).collect();
        Some(object([("anyOf", Value::Array(strict))]))
    }

    fn values(&mut self, values: &[Value]) -> Option<Map<String, Value>> {
        self.enum_values += values.len();
        let mut kinds: Vec<Value> = Vec::new();
        for value in values {
            let kind = json!(scalar_kind(value)?);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let within = self.enum_values <= MAX_ENUM_VALUES && !values.is_empty();
        within.then(|| {
            object([
                ("type", one_or_many(kinds)),
                ("enum", Value::Array(values.to_vec())),
            ])
        })
    }

    fn typed(&mut self, given: &Map<String, Value>, depth: usize) -> Option<Map<String, Value>> {
        let kinds: Vec<Value> = match given.get("type") {
            Some(Value::String(kind)) => vec![json!(kind)],
            Some(Value::Array(kinds)) if !kinds.is_empty() => kinds.clone(),
            None if given.contains_key("properties") => vec![json!("object")],
            None if given.contains_key("items") => vec![json!("array")],
            _ => return None,
        };
        let mut strict = Map::new();
        for kind in &kinds {
            match kind.as_str()? {
                "object" => self.object(given, depth, &mut strict)?,
                "array" => {
                    let items = self.schema(given.get("items")?, depth)?;
                    strict.insert("items".to_owned(), Value::Object(items));
                }
                "string" | "number" | "integer" | "boolean" | "null" => {}
                _ => return None,
            }
        }
        strict.insert("type".to_owned(), one_or_many(kinds));
        Some(strict)
    }

    fn object(
        &mut self,
        given: &Map<String, Value>,
        depth: usize,
        strict: &mut Map<String, Value>,
    ) -> Option<()> {
        let properties = given.get("properties")?.as_object()?;
        if given
            .get("additionalProperties")
            .is_some_and(|more| *more != Value::Bool(false))
        {
            return None;
        }
        let required: Vec<&str> = branches(given.get("required").unwrap_or(&Value::Null))
            .filter_map(Value::as_str)
            .collect();
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return None;
        }
        self.properties += properties.len();
        if depth >= MAX_DEPTH || self.properties > MAX_PROPERTIES {
            return None;
        }
        let mut all = Map::new();
        for (name, property) in properties {
            let mut form = self.schema(property, depth + 1)?;
            if !required.contains(&name.as_str()) && !accepts_null(self.root, property) {
                form = nullable(form);
            }
            all.insert(name.clone(), Value::Object(form));
        }
        let names = properties.keys().map(|name| json!(name)).collect();
        strict.insert("properties".to_owned(), Value::Object(all));
        strict.insert("required".to_owned(), Value::Array(names));
        strict.insert("additionalProperties".to_owned(), Value::Bool(false));
        Some(())
    }
}

/// A schema with its only `allOf` branch drawn in. Two branches, or one that contradicts, cannot be written as one.
fn merged(given: &Map<String, Value>, all: &Value) -> Option<Value> {
    let [branch] = all.as_array()?.as_slice() else {
        return None;
    };
    let mut merged = branch.as_object()?.clone();
    for (keyword, value) in given {
        match keyword.as_str() {
            "allOf" | "$defs" | "definitions" => {}
            "description" => _ = merged.insert(keyword.clone(), value.clone()),
            "title" | "default" | "examples" => {}
            _ if merged.contains_key(keyword) || merged.contains_key("$ref") => return None,
            _ => _ = merged.insert(keyword.clone(), value.clone()),
        }
    }
    Some(Value::Object(merged))
}

/// The values that a schema lists; `None` inside if it lists none, outside if the list is of another shape.
fn values(given: &Map<String, Value>) -> Option<Option<Vec<Value>>> {
    match (given.get("const"), given.get("enum")) {
        (Some(only), _) => Some(Some(vec![only.clone()])),
        (None, Some(values)) => Some(Some(values.as_array()?.clone())),
        (None, None) => Some(None),
    }
}

fn scalar_kind(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => Some("null"),
        Value::Bool(_) => Some("boolean"),
        Value::Number(number) if number.is_f64() => Some("number"),
        Value::Number(_) => Some("integer"),
        Value::String(_) => Some("string"),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether no two object branches begin with the same property, unless it holds different fixed values. OpenAI refuses
/// other choices: it decides by the first key.
fn are_told_apart(choice: &[Map<String, Value>]) -> bool {
    let first = |branch: &Map<String, Value>| {
        let (name, schema) = branch.get("properties")?.as_object()?.iter().next()?;
        Some((name.clone(), schema.get("enum").cloned()))
    };
    let firsts: Vec<_> = choice.iter().filter_map(first).collect();
    firsts.iter().enumerate().all(|(index, (name, values))| {
        let clash = |(other, others): &(String, Option<Value>)| {
            other == name && (values.is_none() || values == others)
        };
        !firsts[..index].iter().any(clash)
    })
}

/// The same form, or null.
fn nullable(mut form: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(any)) = form.get_mut("anyOf") {
        any.push(json!({"type": "null"}));
        return form;
    }
    let Some(kind) = form.get("type") else {
        return object([("anyOf", json!([form, {"type": "null"}]))]);
    };
    let mut kinds = kind.as_array().cloned().unwrap_or_else(|| vec![kind.clone()]);
    kinds.push(json!("null"));
    form.insert("type".to_owned(), Value::Array(kinds));
    if let Some(Value::Array(values)) = form.get_mut("enum") {
        values.push(Value::Null);
    }
    form
}

/// Carries the description over, with the keywords in it that the strict form cannot have.
fn describe(given: &Map<String, Value>, strict: &mut Map<String, Value>) {
    let narrowing = given
        .iter()
        .filter(|(keyword, _)| NARROWING.contains(&keyword.as_str()));
    let narrowing: Map<String, Value> = narrowing
        .map(|(keyword, value)| (keyword.clone(), value.clone()))
        .collect();
    let said = given
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let text = match (said.is_empty(), narrowing.is_empty()) {
        (true, true) => return,
        (false, true) => said.to_owned(),
        (true, false) => format!("Must satisfy {}", Value::Object(narrowing)),
        (false, false) => format!("{said}\nMust satisfy {}", Value::Object(narrowing)),
    };
    strict.insert("description".to_owned(), Value::String(text));
}

fn one_or_many(mut kinds: Vec<Value>) -> Value {
    match kinds.pop() {
        Some(only) if kinds.is_empty() => only,
        Some(last) => {
            kinds.push(last);
            Value::Array(kinds)
        }
        None => Value::Array(kinds),
    }
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    entries
        .into_iter()
        .map(|(keyword, value)| (keyword.to_owned(), value))
        .collect()
}
