use super::*;
use serde::Deserialize;
use serde_json::json;

fn codec(schema: Value) -> SchemaCodec {
    SchemaCodec::new(schema).expect("the schema is usable")
}

fn paths(codec: &impl ResultCodec, value: &Value) -> Vec<String> {
    let violations = codec.check(value).err().unwrap_or_default();
    violations.into_iter().map(|violation| violation.path).collect()
}

#[test]
fn every_violation_is_named_with_its_path() {
    let codec = codec(json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
        "required": ["a", "c"],
        "additionalProperties": false,
    }));
    let found = paths(&codec, &json!({"a": "x", "b": ["y", 1], "d": null}));
    assert_eq!(found.len(), 4, "{found:?}");
    for path in ["/a", "/b/1", ""] {
        assert!(found.iter().any(|p| p == path), "{path} is missing in {found:?}");
    }
}

#[test]
fn schemas_that_reach_outside_or_never_end_are_refused() {
    let unusable = [
        json!({"type": 7}),
        json!({"properties": {"a": {"type": "nothing"}}}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "#/$defs/missing"}),
        json!({"pattern": "("}),
        json!({"pattern": "(?=a)b"}),
        json!({"pattern": "(a{1000}){1000}"}),
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
        json!({"$defs": {"a": {"$anchor": "x", "if": {"$ref": "#x"}}}, "$ref": "#x"}),
        json!({"$defs": {"~a b": {"$ref": "#/%24defs/~0a%20b"}}, "$ref": "#/$defs/~0a%20b"}),
    ];
    for schema in unusable {
        assert!(SchemaCodec::new(schema.clone()).is_err(), "{schema} was accepted");
    }
}

#[test]
fn branching_without_end_is_refused() {
    let mut defs = serde_json::Map::new();
    defs.insert("d0".to_owned(), json!({"type": "string"}));
    for level in 1..40 {
        let below = format!("#/$defs/d{}", level - 1);
        defs.insert(
            format!("d{level}"),
            json!({"anyOf": [{"$ref": below}, {"$ref": below}]}),
        );
    }
    let schema = json!({"$defs": defs, "$ref": "#/$defs/d39"});
    assert_eq!(SchemaCodec::new(schema).err(), Some(SchemaError::Unbounded));
}

#[test]
fn recursive_types_are_usable() {
    let codec = codec(json!({
        "$defs": {"node": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            "required": ["v"],
        }},
        "$ref": "#/$defs/node",
    }));
    assert_eq!(
        codec.check(&json!({"v": 1, "next": {"v": 2, "next": null}})),
        Ok(())
    );
    assert!(codec.check(&json!({"v": 1, "next": {"v": "2"}})).is_err());
}

#[test]
fn sizes_and_depths_are_bounded() {
    let mut deep = json!(true);
    for _ in 0..MAX_SCHEMA_DEPTH {
        deep = json!({"not": deep});
    }
    assert_eq!(SchemaCodec::new(deep).err(), Some(SchemaError::TooLarge));
    let wide = json!({"enum": vec![1; MAX_SCHEMA_VALUES]});
    assert_eq!(SchemaCodec::new(wide).err(), Some(SchemaError::TooLarge));

    let mut value = json!(1);
    for _ in 0..MAX_RESULT_DEPTH {
        value = json!([value]);
    }
    assert_eq!(paths(&codec(json!({})), &value), [""]);
}

#[test]
fn violations_are_bounded_in_number_and_length() {
    let codec = codec(json!({"items": {"type": "integer"}}));
    let value = json!(vec!["x".repeat(10_000); 1_000]);
    let violations = codec.check(&value).expect_err("no item is an integer");
    assert_eq!(violations.len(), MAX_VIOLATIONS + 1);
    assert!(
        violations
            .iter()
            .all(|v| v.message.chars().count() <= MAX_VIOLATION_CHARS + 1)
    );
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "Raw")]
#[schemars(with = "Raw")]
struct Even(u32);

#[derive(Deserialize, JsonSchema)]
struct Raw {
    number: u32,
}

impl TryFrom<Raw> for Even {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        assert!(raw.number < 1_000, "too large");
        if raw.number.is_multiple_of(2) {
            Ok(Self(raw.number))
        } else {
            Err(format!("{} is odd", raw.number))
        }
    }
}

#[test]
fn what_a_type_checks_while_it_is_decoded_is_a_violation() {
    let codec = TypedCodec::<Even>::new().expect("the schema is usable");
    assert_eq!(codec.check(&json!({"number": 4})), Ok(()));
    assert_eq!(codec.decode(&json!({"number": 4})), Ok(Even(4)));
    let odd = codec.check(&json!({"number": 3})).expect_err("3 is odd");
    assert!(odd[0].message.contains("3 is odd"));
    assert_eq!(paths(&codec, &json!({"number": -1})), ["/number"]);
    assert!(codec.check(&json!({"number": 5_000})).is_err());
}
