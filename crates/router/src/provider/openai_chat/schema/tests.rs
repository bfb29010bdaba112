use super::*;
use serde_json::json;

fn form(schema: &Value) -> ResultForm<'_> {
    ResultForm::new(schema, true)
}

/// OpenAI guide "Structured outputs", "Supported schemas": all fields required, optional ones as a union with null,
/// `additionalProperties: false` on every object.
#[test]
fn an_object_becomes_strict() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report",
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 3, "description": "A headline."},
            "score": {"type": "integer", "minimum": 0, "default": 1},
            "note": {"type": ["string", "null"]},
            "kind": {"enum": ["a", "b"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 4},
            "author": {"$ref": "#/definitions/Author"},
        },
        "required": ["title", "tags"],
        "definitions": {
            "Author": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        },
    });
    let form = form(&schema);
    assert!(form.strict && !form.wrapped);
    assert_eq!(
        form.parameters,
        json!({
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "A headline.\nMust satisfy {\"minLength\":3}"},
                "score": {"type": ["integer", "null"], "description": "Must satisfy {\"minimum\":0}"},
                "note": {"type": ["string", "null"]},
                "kind": {"type": ["string", "null"], "enum": ["a", "b", null]},
                "tags": {
                    "type": "array", "items": {"type": "string"}, "description": "Must satisfy {\"maxItems\":4}",
                },
                "author": {"anyOf": [{"$ref": "#/$defs/Author"}, {"type": "null"}]},
            },
            "required": ["title", "score", "note", "kind", "tags", "author"],
            "additionalProperties": false,
            "$defs": {
                "Author": {
                    "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
                    "additionalProperties": false,
                },
            },
        })
    );
}

#[test]
fn a_schema_that_would_lose_values_is_sent_as_it_is() {
    let property = |schema: Value| json!({"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": false});
    let deep = (0..6).fold(json!({"type": "string"}), |inner, _| property(inner));
    let wide: Map<String, Value> = (0..101)
        .map(|n| (format!("p{n}"), json!({"type": "string"})))
        .collect();
    for schema in [
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "number"}}),
        json!({"type": "object", "properties": wide}),
        property(json!(true)),
        property(json!({})),
        property(json!({"type": "object"})),
        property(json!({"type": "object", "properties": {}, "additionalProperties": true})),
        property(json!({"type": "object", "properties": {}, "patternProperties": {"^x": {}}})),
        property(json!({"type": "array"})),
        property(json!({"type": "array", "prefixItems": [{"type": "string"}], "items": false})),
        property(json!({"type": "string", "if": {"const": "x"}, "then": {"maxLength": 1}})),
        property(json!({"allOf": [{"type": "string"}, {"minLength": 2}]})),
        property(json!({"enum": [{"an": "object"}]})),
        property(json!({"$ref": "https://example.com/schema"})),
        property(json!({"$ref": "#/$defs/Missing"})),
        deep,
    ] {
        let form = form(&schema);
        assert!(!form.strict, "{schema} became {}", form.parameters);
        let properties = &form.parameters["properties"];
        assert!(properties.is_object(), "{schema}");
        assert_eq!(form.parameters["type"], "object", "{schema}");
    }
}

#[test]
fn a_single_branch_is_drawn_in_and_choices_must_be_told_apart() {
    let choice = |first: Value, second: Value| {
        json!({
            "type": "object", "required": ["x"],
            "properties": {"x": {"oneOf": [
                {"type": "object", "properties": {"kind": first, "n": {"type": "integer"}}, "required": ["kind", "n"]},
                {"type": "object", "properties": {"kind": second}, "required": ["kind"]},
            ]}},
        })
    };
    let tagged = choice(json!({"const": "a"}), json!({"const": "b"}));
    let form_of_tagged = form(&tagged);
    assert!(form_of_tagged.strict);
    let branches = &form_of_tagged.parameters["properties"]["x"]["anyOf"];
    assert_eq!(
        branches[0]["properties"]["kind"],
        json!({"type": "string", "enum": ["a"]})
    );
    let untagged = choice(json!({"type": "string"}), json!({"type": "string"}));
    assert!(!form(&untagged).strict);

    let all = json!({
        "type": "object", "required": ["x"],
        "properties": {"x": {"allOf": [{"$ref": "#/$defs/X"}], "description": "why", "default": null}},
        "$defs": {"X": {"type": "string"}},
    });
    assert_eq!(
        form(&all).parameters["properties"]["x"],
        json!({"$ref": "#/$defs/X"})
    );
}

#[test]
fn a_result_that_is_no_object_travels_in_one_and_comes_back() {
    let schema = json!({
        "type": "array", "items": {"$ref": "#/$defs/Row"},
        "$defs": {"Row": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
    });
    let form = form(&schema);
    assert!(form.strict && form.wrapped);
    assert_eq!(form.parameters["required"], json!(["value"]));
    assert_eq!(
        form.parameters["properties"]["value"],
        json!({"type": "array", "items": {"$ref": "#/$defs/Row"}})
    );
    assert_eq!(
        form.parameters["$defs"]["Row"]["additionalProperties"],
        json!(false)
    );
    let rows = json!([{"n": 1}]);
    assert_eq!(form.restore(form.wrap(&rows)), rows);
    // Whatever has another form is for the original schema to judge.
    for odd in [
        json!([{"n": 1}]),
        json!({"value": 1, "more": 2}),
        json!({"rows": []}),
    ] {
        assert_eq!(form.restore(odd.clone()), odd);
    }
}

#[test]
fn references_to_the_root_move_along_and_data_does_not() {
    let schema = json!({
        "anyOf": [{"type": "null"}, {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}],
        "examples": [{"$ref": "#"}],
    });
    let form = ResultForm::new(&schema, false);
    assert!(form.wrapped && !form.strict);
    let inner = &form.parameters["properties"]["value"];
    assert_eq!(
        inner["anyOf"][1]["properties"]["next"]["$ref"],
        "#/properties/value"
    );
    assert_eq!(inner["examples"], json!([{"$ref": "#"}]));
}

#[test]
fn a_root_that_is_a_reference_is_followed() {
    let schema = json!({
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": {
            "type": "object", "required": ["leaves"],
            "properties": {"leaves": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        }},
    });
    let form = form(&schema);
    assert!(form.strict && !form.wrapped);
    assert_eq!(
        form.parameters["properties"]["leaves"]["items"],
        json!({"$ref": "#/$defs/Tree"})
    );
    // A circle is no object, and no hang.
    let circle = json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}});
    assert!(ResultForm::new(&circle, true).wrapped);
}

#[test]
fn only_the_nulls_that_strictness_asked_for_are_removed() {
    let schema = json!({
        "type": "object",
        "properties": {
            "absent": {"type": "string"},
            "meant": {"type": ["string", "null"]},
            "any_of": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "demanded": {"type": "string"},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
            "pick": {"oneOf": [
                {"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "integer"}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "b"}, "x": {"type": ["integer", "null"]}}, "required": ["k"]},
            ]},
        },
        "required": ["demanded"],
        "$defs": {"Row": {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"$ref": "#/$defs/Row"}}}},
    });
    let form = form(&schema);
    assert!(form.strict);
    let restored = form.restore(json!({
        "absent": null, "meant": null, "any_of": null, "demanded": null,
        "rows": [{"n": null, "m": {"n": 1, "m": null}}],
        "pick": {"k": "b", "x": null},
    }));
    assert_eq!(
        restored,
        json!({
            "meant": null, "any_of": null, "demanded": null,
            "rows": [{"m": {"n": 1}}],
            "pick": {"k": "b", "x": null},
        })
    );
    let other = form.restore(json!({"demanded": "d", "pick": {"k": "a", "x": null}}));
    assert_eq!(other, json!({"demanded": "d", "pick": {"k": "a"}}));
    // Without strictness a null is the model's own word.
    let loose = ResultForm::new(&schema, false);
    assert_eq!(loose.restore(json!({"absent": null})), json!({"absent": null}));
}
