//! Runs that the engine really drives, seen through the API.

use crate::support::World;
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

async fn finished(world: &World, body: Value) -> Value {
    let created = world.post("/v1/runs", body.to_string()).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let id = world.run_ref(&created).run;
    let run = world.get(&format!("/v1/runs/{id}?waitMs=20000")).await.json()["run"].clone();
    assert_eq!(run["status"], "succeeded", "{run}");
    run
}

#[tokio::test]
async fn a_nul_comes_back_byte_for_byte() {
    let world = World::live().await;
    let input = r#"{"task":"a\u0000b","z":"\u0000","é":[1,-0.5,1e-7,"😀"]}"#;
    let body = format!(r#"{{"agentName":"echo","input":{input}}}"#);
    let created = world.post("/v1/runs", body).await;
    let id = world.run_ref(&created).run;
    let answer = world.get(&format!("/v1/runs/{id}?waitMs=20000")).await;
    let text = String::from_utf8(answer.body).expect("UTF-8");
    assert!(text.contains(&format!("\"input\":{input}")), "{text}");
    assert!(text.contains(&format!("\"output\":{input}")), "{text}");
}

#[tokio::test]
async fn a_run_shows_its_steps_and_its_trace() {
    let world = World::live().await;
    let run = finished(&world, json!({"agentName": "echo", "input": "hi"})).await;
    let id = run["id"].as_str().expect("an id");
    assert_eq!(
        (&run["output"], &run["model"], &run["usage"]["modelCalls"]),
        (&json!("hi"), &json!("fake/echo"), &json!(1))
    );
    assert!(run["startedAt"].is_string() && run["finishedAt"].is_string());
    assert_eq!(run["costUsd"], json!(null), "the price is not known");

    let steps = world.get(&format!("/v1/runs/{id}/steps")).await.json()["data"].clone();
    assert_eq!(steps.as_array().expect("a list").len(), 1);
    assert_eq!(
        (&steps[0]["stepId"], &steps[0]["kind"], &steps[0]["status"]),
        (&json!("llm-1"), &json!("llm"), &json!("completed"))
    );
    assert_eq!(steps[0]["attempts"][0]["idempotencyKey"], format!("{id}:llm-1:1"));

    let trace = world.get(&format!("/v1/runs/{id}/trace")).await.json();
    assert_eq!(trace["executionId"], id.replacen("run_", "exe_", 1));
    let kinds: Vec<&str> = trace["events"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|e| e["kind"].as_str())
        .collect();
    assert_eq!(kinds.first(), Some(&"execution.started"));
    assert!(kinds.contains(&"model.requested"), "{kinds:?}");
    assert_eq!(world.models.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_files_of_a_run_are_listed_and_given_out() {
    let world = World::live().await;
    let workspace = json!({"kind": "memory", "files": {"old.txt": "old"}});
    world
        .agent(
            "editor",
            json!({"model": "fake/editor", "tools": ["editor"], "workspace": workspace}),
        )
        .await;
    let run = finished(&world, json!({"agentName": "editor", "input": "go"})).await;
    let path = format!("/v1/runs/{}/artifacts", run["id"].as_str().expect("an id"));
    let artifacts = world.get(&path).await.json()["data"].clone();
    assert_eq!(artifacts.as_array().expect("a list").len(), 1, "{artifacts}");
    let artifact = &artifacts[0];
    assert_eq!(
        (&artifact["path"], &artifact["operation"], &artifact["size"]),
        (&json!("notes/a b.txt"), &json!("created"), &json!(6))
    );
    let bytes = world.get(&format!("{path}/notes/a%20b.txt")).await;
    assert_eq!(bytes.body, "caf\u{e9}\u{0}".as_bytes());
    assert_eq!(bytes.header("content-type"), Some("application/octet-stream"));
    assert_eq!(bytes.header("content-disposition"), Some("attachment"));
    assert_eq!(bytes.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(
        bytes.header("etag"),
        Some(format!("\"{}\"", artifact["digest"].as_str().expect("a digest")).as_str())
    );
    for missing in [
        "old.txt",
        "notes",
        "../notes/a%20b.txt",
        "notes%2F..%2Fnotes%2Fa%20b.txt",
        "x",
    ] {
        let answer = world.get(&format!("{path}/{missing}")).await;
        assert_eq!(answer.code(), (404, "artifact_not_found".to_owned()), "{missing}");
    }
}

#[tokio::test]
async fn a_full_host_leaves_runs_to_its_sweep() {
    let world = World::live().await;
    world.agent("stuck", json!({"model": "fake/stuck"})).await;
    for _ in 0..20 {
        let body = json!({"agentName": "stuck", "input": "x"}).to_string();
        assert_eq!(world.post("/v1/runs", body).await.status, StatusCode::CREATED);
    }
    let page = world.get("/v1/runs?limit=200").await.json();
    let waiting = page["data"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|run| run["waitingOn"]["why"] == "host");
    assert!(waiting.count() >= 4, "the host has 16 places");
}
