//! A store that fails, a server that drains, rows 83 and 84.

use crate::support::{World, flaky::Fault};
use axum::body::Body;
use http::StatusCode;
use serde_json::json;

fn body() -> String {
    json!({"agentName": "echo", "input": "x"}).to_string()
}

#[tokio::test]
async fn row_83_a_store_that_is_down_is_503_and_says_when_to_come_again() {
    let world = World::idle().await;
    let run = world.queued().await.run;
    world.flaky.set(Fault::Down);
    for path in [
        "/v1/runs".to_owned(),
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{run}?waitMs=1000"),
        format!("/v1/runs/{run}/events"),
        format!("/v1/runs/{run}/steps"),
        "/readyz".to_owned(),
    ] {
        let answer = world.get(&path).await;
        if path == "/readyz" {
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
            continue;
        }
        assert_eq!(answer.code(), (503, "store_unavailable".to_owned()), "{path}");
        let seconds: u64 = answer
            .header("retry-after")
            .expect("Retry-After")
            .parse()
            .expect("a number");
        assert!((1..=3).contains(&seconds), "{seconds}");
        assert_eq!(answer.json()["retryAfterMs"], 1_000);
        assert!(
            !String::from_utf8_lossy(&answer.body).contains("down"),
            "the cause stays inside"
        );
    }
    assert_eq!(world.post("/v1/runs", body()).await.code().1, "store_unavailable");
    world.flaky.set(Fault::None);
    assert_eq!(world.get("/v1/runs").await.status, StatusCode::OK);
    assert_eq!(world.runs_of(world.tenant).await, 1, "nothing half-done");
}

#[tokio::test]
async fn an_unknown_commit_is_read_back_and_never_guessed() {
    let world = World::idle().await;
    world.flaky.set(Fault::UnknownButCommitted);
    let created = world.post("/v1/runs", body()).await;
    assert_eq!(created.status, StatusCode::CREATED);
    assert_eq!(world.runs_of(world.tenant).await, 1);
    world.flaky.set(Fault::UnknownAndLost);
    let lost = world.post("/v1/runs", body()).await;
    assert_eq!(lost.code(), (503, "store_unavailable".to_owned()));
    assert_eq!(world.runs_of(world.tenant).await, 1);
}

#[tokio::test]
async fn a_claim_in_an_unknown_commit_is_driven_or_left_to_the_sweep() {
    let world = World::live().await;
    world.flaky.set(Fault::UnknownButCommitted);
    let created = world.post("/v1/runs", body()).await;
    world.flaky.set(Fault::None);
    let id = world.run_ref(&created).run;
    let run = world.get(&format!("/v1/runs/{id}?waitMs=20000")).await.json();
    assert_eq!(run["run"]["status"], "succeeded");
}

#[tokio::test]
async fn row_84_a_draining_server_takes_no_runs_and_still_answers() {
    let world = World::idle().await;
    let run = world.queued().await.run;
    world.shutdown.cancel();
    let answer = world.post("/v1/runs", body()).await;
    assert_eq!(answer.code(), (503, "draining".to_owned()));
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.header("retry-after").is_some());
    let read = world.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(
        (read.status, read.header("connection")),
        (StatusCode::OK, Some("close"))
    );
    assert_eq!(world.runs_of(world.tenant).await, 1);
}

#[tokio::test]
async fn health_says_alive_and_ready_apart() {
    let world = World::idle().await;
    let bare = async |path: &str| {
        let request = http::Request::builder().uri(path).header("host", "portolan.test");
        world.send(request.body(Body::empty()).expect("a request")).await
    };
    assert_eq!(bare("/healthz").await.json(), json!({"status": "ok"}));
    // This host never looked for interrupted runs.
    assert_eq!(bare("/readyz").await.code(), (503, "not_ready".to_owned()));
    let live = World::live().await;
    while live.get("/readyz").await.status != StatusCode::OK {
        tokio::task::yield_now().await;
    }
    live.shutdown.cancel();
    assert_eq!(live.get("/readyz").await.code(), (503, "not_ready".to_owned()));
    assert_eq!(live.get("/healthz").await.status, StatusCode::OK);
}
