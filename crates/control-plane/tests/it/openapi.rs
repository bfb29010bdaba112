//! The OpenAPI document says what the server does.

use crate::support::World;
use axum::body::Body;
use http::Request;
use portolan_control_plane::openapi_json;
use portolan_core::agent::AgentDefinition;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../api/openapi.json");

fn document() -> Value {
    serde_json::from_str(openapi_json()).expect("JSON")
}

#[test]
fn the_committed_document_is_that_of_the_handlers() {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(COMMITTED, openapi_json()).expect("the folder is there");
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(
        committed == openapi_json(),
        "api/openapi.json is old: run this test once with UPDATE=1"
    );
}

#[tokio::test]
async fn every_documented_operation_is_served_and_wants_a_key_where_it_says_so() {
    let world = World::idle().await;
    let document = document();
    assert!(
        document["openapi"]
            .as_str()
            .expect("a version")
            .starts_with("3.1")
    );
    let mut count = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            count += 1;
            let concrete = path
                .replace("{id}", "x")
                .replace("{name}", "x")
                .replace("{version}", "1")
                .replace("{path}", "a/b");
            let request = Request::builder()
                .method(method.to_uppercase().as_str())
                .uri(&concrete)
                .header("host", "a");
            let answer = world.send(request.body(Body::empty()).expect("a request")).await;
            let open = operation.get("security").is_none();
            assert_eq!(
                answer.status.as_u16() == 401,
                !open,
                "{method} {path}: {}",
                answer.status
            );
            assert_eq!(
                open,
                ["/healthz", "/readyz", "/openapi.json"].contains(&path.as_str()),
                "{method} {path}"
            );
            assert!(operation["operationId"].is_string(), "{method} {path}");
        }
    }
    assert_eq!(count, 18);
    let served = world.get("/openapi.json").await;
    assert_eq!(served.json(), document);
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if let (true, Some(text)) = (name == "$ref", member.as_str()) {
                        found.insert(text.to_owned());
                    }
                    walk(member, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    walk(&document, &mut found);
    assert!(found.len() > 20);
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("local");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// The members of an object of the document.
fn members(schema: &str) -> BTreeSet<String> {
    let document = document();
    let properties = document["components"]["schemas"][schema]["properties"].as_object();
    properties
        .unwrap_or_else(|| panic!("no {schema}"))
        .keys()
        .cloned()
        .collect()
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn the_shape_of_a_definition_is_that_of_its_type() {
    let full = json!({
        "name": "a", "description": "d", "model": "m", "capability": "c", "task": "t", "instructions": ["i"],
        "tools": ["editor", {"shell": {"commands": {"a": ["b"]}, "environment": {"A": "b"}}},
            {"mcp": {"name": "n", "url": "u", "tools": ["t"], "class": "idempotent"}}],
        "resources": {"r": {"directory": "d", "files": {"a": "b"}, "allow": ["read"], "denyGlobs": ["*"]}},
        "approval": {"tools": ["shell"], "timeoutMs": 1, "onBudget": "ask"},
        "workspace": {"kind": "memory", "from": "f", "files": {"a": {"base64": ""}}, "allow": ["edit"], "denyGlobs": ["*"]},
        "runtime": {"isolation": "microvm", "memoryMib": 1, "vcpus": 1, "egress": ["h"]},
        "limits": {"modelCalls": 1, "toolCalls": 1, "resultRetries": 1, "wallTimeMs": 1, "maxCostUsd": "1", "maxTokens": 1,
            "maxOutputTokens": 1},
        "retries": {}, "inputSchema": {}, "resultSchema": {},
    });
    let definition: AgentDefinition = serde_json::from_value(full).expect("a definition");
    let written = serde_json::to_value(&definition).expect("encodes");
    for (schema, value) in [
        ("AgentDefinition", &written),
        ("Shell", &written["tools"][1]["shell"]),
        ("Mcp", &written["tools"][2]["mcp"]),
        ("Resource", &written["resources"]["r"]),
        ("Approval", &written["approval"]),
        ("Workspace", &written["workspace"]),
        ("Runtime", &written["runtime"]),
        ("RunLimits", &written["limits"]),
        ("Retries", &written["retries"]),
    ] {
        assert_eq!(members(schema), keys(value), "{schema}");
    }
}

#[tokio::test]
async fn the_shapes_of_runs_are_those_that_are_written() {
    let world = World::live().await;
    let workspace = json!({"kind": "memory"});
    world
        .agent(
            "editor",
            json!({"model": "fake/editor", "tools": ["editor"], "workspace": workspace}),
        )
        .await;
    let created = world
        .post(
            "/v1/runs",
            json!({"agentName": "editor", "input": "x"}).to_string(),
        )
        .await;
    let id = world.run_ref(&created).run;
    let run = world.get(&format!("/v1/runs/{id}?waitMs=20000")).await.json();
    let subset = |schema: &str, value: &Value| {
        let (known, written) = (members(schema), keys(value));
        assert!(
            written.is_subset(&known),
            "{schema}: {:?}",
            written.difference(&known)
        );
    };
    subset("Run", &run["run"]);
    subset("RunUsage", &run["run"]["usage"]);
    let steps = world.get(&format!("/v1/runs/{id}/steps")).await.json();
    assert_eq!(keys(&steps), members("StepList"));
    for step in steps["data"].as_array().expect("a list") {
        subset("Step", step);
        subset("StepAttempt", &step["attempts"][0]);
    }
    let trace = world.get(&format!("/v1/runs/{id}/trace")).await.json();
    assert_eq!(keys(&trace), members("Trace"));
    assert_eq!(keys(&trace["events"][0]), members("TraceEvent"));
    let artifacts = world.get(&format!("/v1/runs/{id}/artifacts")).await.json();
    assert_eq!(keys(&artifacts["data"][0]), members("Artifact"));
    let agent = world.get("/v1/agents/echo").await.json();
    assert_eq!(keys(&agent["agent"]), members("Agent"));
    assert_eq!(keys(&world.get("/v1/runs").await.json()), members("RunList"));
    let problem = world.get("/v1/runs/x").await.json();
    subset("ProblemBody", &problem);
}
