//! Idempotency keys, rows 61 to 69.

use crate::support::{Answer, World, config};
use axum::body::Body;
use http::StatusCode;
use portolan_control_plane::ApiConfig;
use portolan_core::{agent::AgentStore, money::NanoUsd};
use portolan_journal::{JournalStore, ScopeKey};
use serde_json::json;
use std::collections::BTreeSet;

const BODY: &str = r#"{"agentName":"echo","input":{"task":"x","n":1},"tags":["a"]}"#;

async fn post(world: &World, key: &str, body: &str) -> Answer {
    let request = world
        .request("POST", "/v1/runs")
        .header("content-type", "application/json")
        .header("idempotency-key", key);
    world
        .send(request.body(Body::from(body.to_owned())).expect("a request"))
        .await
}

fn id(answer: &Answer) -> String {
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    answer.json()["run"]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn row_61_what_is_no_key_is_refused() {
    let world = World::idle().await;
    let long = "k".repeat(256);
    for key in ["", "\"\"", long.as_str(), "a\tb", "\"a", "a b"] {
        assert_eq!(
            post(&world, key, BODY).await.code(),
            (400, "bad_idempotency_key".to_owned()),
            "{key:?}"
        );
    }
    let request = world
        .request("POST", "/v1/runs")
        .header("content-type", "application/json")
        .header("idempotency-key", "a")
        .header("idempotency-key", "a");
    let answer = world
        .send(request.body(Body::from(BODY)).expect("a request"))
        .await;
    assert_eq!(answer.code().1, "bad_idempotency_key");
    id(&post(&world, &"k".repeat(255), BODY).await);
}

#[tokio::test]
async fn rows_62_to_64_the_same_request_is_the_same_run_in_its_present_state() {
    let world = World::idle().await;
    let first = post(&world, "k1", BODY).await;
    assert_eq!(first.header("idempotent-replayed"), None);
    let run = world.run_ref(&first);
    world.succeed(run).await;
    let reordered = r#" { "tags": ["a"], "input": {"n":1, "task":"x"}, "metadata":{}, "agentName":"echo" } "#;
    for (key, body) in [("k1", BODY), ("\"k1\"", BODY), ("k1", reordered)] {
        let again = post(&world, key, body).await;
        assert_eq!(id(&again), run.run.to_string());
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.header("location"), first.header("location"));
        let now = &again.json()["run"];
        assert_eq!(
            (&now["status"], &now["output"]),
            (&json!("succeeded"), &json!("done"))
        );
    }
    for other in [
        r#"{"agentName":"echo","input":{"task":"x","n":2},"tags":["a"]}"#,
        r#"{"agentName":"echo","input":{"task":"x","n":1},"tags":["a"],"limits":{"toolCalls":0}}"#,
    ] {
        let answer = post(&world, "k1", other).await;
        assert_eq!(
            answer.code(),
            (422, "idempotency_key_reused".to_owned()),
            "row 63"
        );
    }
    assert_eq!(world.runs_of(world.tenant).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_65_and_66_concurrent_requests_make_one_run() {
    let world = std::sync::Arc::new(World::idle().await);
    for (key, differ) in [("same", false), ("other", true)] {
        let mut asking = tokio::task::JoinSet::new();
        for number in 0..64 {
            let world = std::sync::Arc::clone(&world);
            let input = if differ { number } else { 0 };
            asking.spawn(async move {
                let body = json!({"agentName": "echo", "input": {"task": "x", "n": input}}).to_string();
                post(&world, key, &body).await
            });
        }
        let answers = asking.join_all().await;
        let made: BTreeSet<String> = answers
            .iter()
            .filter(|a| a.status == StatusCode::CREATED)
            .map(id)
            .collect();
        assert_eq!(made.len(), 1, "{key}");
        let fresh = answers
            .iter()
            .filter(|a| a.status == StatusCode::CREATED && a.header("idempotent-replayed").is_none());
        assert_eq!(fresh.count(), 1, "{key}: one answer made it");
        for answer in answers.iter().filter(|a| a.status != StatusCode::CREATED) {
            assert!(differ);
            assert_eq!(answer.code().1, "idempotency_key_reused");
        }
    }
    assert_eq!(world.runs_of(world.tenant).await, 2);
}

#[tokio::test]
async fn row_67_keys_belong_to_a_tenant() {
    let mut world = World::idle().await;
    let ours = id(&post(&world, "k", BODY).await);
    let echo = world
        .agents
        .agent(world.tenant, crate::support::name("echo"), None)
        .await
        .expect("works")
        .expect("there");
    world
        .agents
        .put_agent(world.other_tenant, echo.id, echo.definition, echo.created_at)
        .await
        .expect("works");
    world.key = world.other_key.clone();
    let theirs = post(&world, "k", BODY).await;
    assert_ne!(id(&theirs), ours);
    assert_eq!(theirs.header("idempotent-replayed"), None);
}

#[tokio::test]
async fn row_68_a_refused_request_takes_no_key() {
    let world = World::idle().await;
    assert_eq!(post(&world, "k", "{").await.status.as_u16(), 400);
    let missing = BODY.replace("echo", "later");
    assert_eq!(post(&world, "k", &missing).await.status.as_u16(), 404);
    let limit = async |limit| {
        let set = world
            .journal
            .set_scope_limit(world.tenant, ScopeKey::Tenant, limit);
        set.await.expect("memory works");
    };
    limit(Some(NanoUsd::ZERO)).await;
    let refused = post(&world, "k", BODY).await;
    assert_eq!(refused.code(), (402, "budget_exhausted".to_owned()));
    assert_eq!(refused.json()["limit"], "tenant");
    assert_eq!(world.runs_of(world.tenant).await, 0, "nothing was made");
    limit(None).await;
    let made = post(&world, "k", BODY).await;
    assert_eq!(made.header("idempotent-replayed"), None);
    id(&made);

    // And what was made is still the answer when nothing could be made any more.
    limit(Some(NanoUsd::ZERO)).await;
    assert_eq!(id(&post(&world, "k", BODY).await), id(&made));
    let retired = world
        .agents
        .retire_agent(world.tenant, crate::support::name("echo"))
        .await;
    assert!(retired.expect("works"));
    let again = post(&world, "k", BODY).await;
    assert_eq!(id(&again), id(&made));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
}

#[tokio::test]
async fn the_replay_of_a_run_outlives_its_agent() {
    let config = ApiConfig {
        agent_ttl_ms: 0,
        ..config()
    };
    let world = World::idle_with(config).await;
    let made = id(&post(&world, "k", BODY).await);
    let retired = world
        .agents
        .retire_agent(world.tenant, crate::support::name("echo"))
        .await;
    assert!(retired.expect("works"));
    assert_eq!(post(&world, "fresh", BODY).await.code().1, "agent_not_found");
    let other = BODY.replace("\"n\":1", "\"n\":2");
    // The agent is gone, so the fingerprint alone decides.
    assert_eq!(id(&post(&world, "k", BODY).await), made);
    assert_eq!(post(&world, "k", &other).await.code().1, "idempotency_key_reused");
}

#[tokio::test]
async fn row_69_a_key_is_free_again_after_its_time() {
    let config = ApiConfig {
        idempotency_ttl_ms: 0,
        ..config()
    };
    let world = World::idle_with(config).await;
    let (first, second) = (post(&world, "k", BODY).await, post(&world, "k", BODY).await);
    assert_ne!(id(&first), id(&second));
    assert!(ApiConfig::default().idempotency_ttl_ms >= 24 * 60 * 60 * 1_000);
}
