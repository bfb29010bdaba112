//! Agents: versions, what cannot run, retiring.

use crate::support::World;
use axum::body::Body;
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

fn minimal() -> Value {
    json!({"model": "fake/echo", "resultSchema": {"type": "string"}})
}

#[tokio::test]
async fn a_definition_has_immutable_versions() {
    let world = World::idle().await;
    let first = world.put("/v1/agents/fixer", &minimal()).await;
    assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
    assert_eq!(first.header("location"), Some("/v1/agents/fixer/versions/1"));
    let agent = &first.json()["agent"];
    assert_eq!(
        (&agent["name"], &agent["version"], &agent["retired"]),
        (&json!("fixer"), &json!(1), &json!(false))
    );
    assert_eq!(agent["definition"]["model"], "fake/echo");
    assert!(agent["id"].as_str().expect("an id").starts_with("agt_"));

    world.clock.advance_ms(2);
    let same = world.put("/v1/agents/fixer", &minimal()).await;
    assert_eq!(
        (same.status, &same.json()["agent"]["version"]),
        (StatusCode::OK, &json!(1))
    );

    let mut changed = minimal();
    changed["name"] = json!("fixer");
    changed["description"] = json!("second");
    let second = world.put("/v1/agents/fixer", &changed).await.json();
    assert_eq!(second["agent"]["version"], 2);
    assert_eq!(second["agent"]["id"], agent["id"]);
    assert_eq!(world.get("/v1/agents/fixer").await.json(), second);
    assert_eq!(
        world.get("/v1/agents/fixer/versions/1").await.json()["agent"]["version"],
        1
    );
    for path in [
        "/v1/agents/fixer/versions/3",
        "/v1/agents/fixer/versions/0",
        "/v1/agents/fixer/versions/x",
        "/v1/agents/a%2Fb",
    ] {
        assert_eq!(
            world.get(path).await.code(),
            (404, "agent_not_found".to_owned()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_run_takes_the_version_that_was_put_a_moment_ago() {
    let world = World::idle().await;
    for version in 1..=3 {
        let mut definition = minimal();
        definition["description"] = json!(format!("version {version}"));
        assert_eq!(
            world.put("/v1/agents/fixer", &definition).await.json()["agent"]["version"],
            version
        );
        let run = world
            .post(
                "/v1/runs",
                json!({"agentName": "fixer", "input": "x"}).to_string(),
            )
            .await;
        assert_eq!(run.json()["run"]["agentVersion"], version);
    }
}

#[tokio::test]
async fn a_retired_agent_takes_no_runs_until_it_is_put_again() {
    let world = World::idle().await;
    world.put("/v1/agents/fixer", &minimal()).await;
    let run = async || {
        world
            .post(
                "/v1/runs",
                json!({"agentName": "fixer", "input": "x"}).to_string(),
            )
            .await
    };
    let delete = async || {
        let request = world.request("DELETE", "/v1/agents/fixer").body(Body::empty());
        world.send(request.expect("a request")).await
    };
    assert_eq!(run().await.status, StatusCode::CREATED);
    assert_eq!(delete().await.status, StatusCode::NO_CONTENT);
    assert_eq!(run().await.code(), (404, "agent_not_found".to_owned()));
    assert_eq!(delete().await.code(), (404, "agent_not_found".to_owned()));
    assert_eq!(world.get("/v1/agents/fixer").await.status.as_u16(), 404);
    assert_eq!(
        world.get("/v1/agents/fixer/versions/1").await.json()["agent"]["retired"],
        true
    );
    world.put("/v1/agents/fixer", &minimal()).await;
    assert_eq!(run().await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn rows_43_and_44_what_cannot_run_is_refused_where_it_is_put() {
    let world = World::idle().await;
    let many: Vec<Value> = (0..10_000).map(|_| json!({"type": "string"})).collect();
    for (what, member, value, pointer) in [
        ("no model", "model", json!(null), "/model"),
        ("an unknown model", "model", json!("fake/nobody"), "/model"),
        ("an unknown tool", "tools", json!(["teleport"]), "/tools/0"),
        ("doubled tools", "tools", json!(["editor", "editor"]), "/tools"),
        (
            "no schema",
            "resultSchema",
            json!({"type": "text"}),
            "/resultSchema",
        ),
        (
            "a remote reference",
            "resultSchema",
            json!({"$ref": "https://example.com/s.json"}),
            "/resultSchema",
        ),
        (
            "a limit of none",
            "limits",
            json!({"modelCalls": 0}),
            "/limits/modelCalls",
        ),
        (
            "a limit of another type",
            "limits",
            json!({"modelCalls": "8"}),
            "/limits/modelCalls",
        ),
        ("a list of limits", "limits", json!([5]), "/limits"),
        ("an unknown limit", "limits", json!({"steps": 1}), "/limits/steps"),
        ("an unknown member", "resultSchemas", json!({}), "/resultSchemas"),
        (
            "an isolation that nobody gives",
            "runtime",
            json!({"isolation": "microvm"}),
            "/runtime/isolation",
        ),
        (
            "a file to inline",
            "instructions",
            json!([{"file": "a.md"}]),
            "/instructions/0",
        ),
        ("another name", "name", json!("other"), "/name"),
        ("no name", "name", json!("a/b"), "/name"),
        (
            "unknown field of an instruction",
            "instructions",
            json!([{"file": "a", "x": 1}]),
            "/instructions/0",
        ),
    ] {
        let mut definition = minimal();
        definition[member] = value;
        let answer = world.put("/v1/agents/fixer", &definition).await;
        assert_eq!(
            answer.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{what}: {answer:?}"
        );
        answer.code();
        let errors = answer.json()["errors"].clone();
        let pointers: Vec<&str> = errors
            .as_array()
            .expect("errors")
            .iter()
            .filter_map(|e| e["pointer"].as_str())
            .collect();
        assert!(
            pointers.iter().any(|found| found.starts_with(pointer)),
            "{what}: {errors}"
        );
    }
    let mut definition = minimal();
    definition["resultSchema"] = json!({"anyOf": many});
    let status = world.put("/v1/agents/big", &definition).await.status;
    assert!(
        matches!(status, StatusCode::CREATED | StatusCode::UNPROCESSABLE_ENTITY),
        "{status}"
    );
    definition["resultSchema"] = json!({"$ref": "#"});
    let status = world.put("/v1/agents/round", &definition).await.status;
    assert!(
        matches!(status, StatusCode::CREATED | StatusCode::UNPROCESSABLE_ENTITY),
        "{status}"
    );
    assert_eq!(
        world.get("/v1/agents/fixer").await.status.as_u16(),
        404,
        "nothing was stored"
    );
    assert_eq!(world.models.calls.load(Ordering::SeqCst), 0, "no model was asked");
}

#[tokio::test]
async fn an_isolation_that_is_missing_has_a_code_of_its_own() {
    let world = World::idle().await;
    let mut definition = minimal();
    definition["runtime"] = json!({"isolation": "microvm"});
    let answer = world.put("/v1/agents/fixer", &definition).await;
    assert_eq!(answer.code(), (422, "isolation_unavailable".to_owned()));
}

#[tokio::test]
async fn agents_are_listed_by_name_in_pages() {
    let world = World::idle().await;
    for name in ["b", "a", "c"] {
        world.put(&format!("/v1/agents/{name}"), &minimal()).await;
    }
    let names = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().expect("a list");
        data.iter()
            .filter_map(|agent| agent["name"].as_str().map(str::to_owned))
            .collect()
    };
    let first = world.get("/v1/agents?limit=3").await.json();
    assert_eq!(
        (names(&first), &first["hasMore"]),
        (vec!["a".into(), "b".into(), "c".into()], &json!(true))
    );
    let cursor = first["nextCursor"].as_str().expect("a cursor");
    let second = world
        .get(&format!("/v1/agents?limit=3&cursor={cursor}"))
        .await
        .json();
    assert_eq!(
        (names(&second), &second["hasMore"]),
        (vec!["echo".into()], &json!(false))
    );
}
