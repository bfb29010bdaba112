//! Cancelling runs, row 77.

use crate::support::World;
use http::StatusCode;
use portolan_journal::JournalStore;
use serde_json::json;

#[tokio::test]
async fn a_cancel_is_durable_once_however_often_it_is_asked_for() {
    let world = World::idle().await;
    let run = world.queued().await;
    let path = format!("/v1/runs/{}/cancel", run.run);
    for _ in 0..2 {
        let answer = world.post(&path, "").await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
        assert_eq!(answer.json()["run"]["status"], "cancelling");
    }
    assert_eq!(world.journal.inbox(run).await.expect("memory works").len(), 1);
    let listed = async |status: &str| {
        let page = world.get(&format!("/v1/runs?status={status}")).await.json();
        page["data"].as_array().expect("a list").len()
    };
    assert_eq!(
        (listed("cancelling").await, listed("queued").await),
        (1, 0),
        "a list shows what a run shows"
    );
}

#[tokio::test]
async fn what_has_ended_cannot_be_cancelled() {
    let world = World::idle().await;
    let run = world.queued().await;
    world.succeed(run).await;
    let answer = world.post(&format!("/v1/runs/{}/cancel", run.run), "").await;
    assert_eq!(answer.code(), (409, "already_terminal".to_owned()));
    assert_eq!(answer.json()["runId"], run.run.to_string());
}

#[tokio::test]
async fn a_running_model_call_is_cut() {
    let world = World::live().await;
    world.agent("stuck", json!({"model": "fake/stuck"})).await;
    let created = world
        .post(
            "/v1/runs",
            json!({"agentName": "stuck", "input": "x"}).to_string(),
        )
        .await;
    let run = world.run_ref(&created).run;
    let running = async || world.get(&format!("/v1/runs/{run}")).await.json()["run"]["status"] == "running";
    while !running().await {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        world.post(&format!("/v1/runs/{run}/cancel"), "").await.status,
        StatusCode::ACCEPTED
    );
    let ended = world.get(&format!("/v1/runs/{run}?waitMs=20000")).await.json();
    assert_eq!(ended["run"]["status"], "cancelled");
    assert_eq!(ended["run"]["error"]["kind"], "cancelled");
}
