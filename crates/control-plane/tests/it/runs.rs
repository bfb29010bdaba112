//! What a run looks like, and waiting for it.

use crate::support::{World, encoded};
use portolan_core::{
    event::{Event, RunWaiting, WaitReason},
    time::Clock,
};
use portolan_journal::RunStatus;
use serde_json::json;
use std::{sync::Arc, time::Duration};

#[tokio::test]
async fn a_queued_run_shows_all_that_a_run_has() {
    let world = World::idle().await;
    let body = json!({
        "agentName": "echo", "input": {"task": "x", "b": 1, "a": 2}, "limits": {"modelCalls": 3, "toolCalls": 0},
        "metadata": {"team": "a"}, "tags": ["nightly", "x"],
    });
    let created = world.post("/v1/runs", body.to_string()).await.json();
    let run = &created["run"];
    let shown = world
        .get(&format!("/v1/runs/{}", run["id"].as_str().expect("an id")))
        .await
        .json();
    assert_eq!(
        created, shown,
        "the answer to the creation is what is read afterwards"
    );
    let members: Vec<&str> = run
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        members,
        [
            "id",
            "agentName",
            "agentVersion",
            "status",
            "input",
            "output",
            "error",
            "limits",
            "usage",
            "costUsd",
            "costIsEstimate",
            "model",
            "placement",
            "recoveries",
            "wallTimeUsedMs",
            "parentRunId",
            "forkedFromSeq",
            "tags",
            "metadata",
            "createdAt",
            "startedAt",
            "finishedAt",
            "waitingOn",
        ]
    );
    assert_eq!(
        run["input"].to_string(),
        r#"{"task":"x","b":1,"a":2}"#,
        "in the order of the client"
    );
    assert_eq!(
        (&run["tags"], &run["metadata"]),
        (&json!(["nightly", "x"]), &json!({"team": "a"}))
    );
    assert_eq!(
        (&run["limits"]["modelCalls"], &run["limits"]["toolCalls"]),
        (&json!(3), &json!(0))
    );
    assert_eq!(run["limits"]["wallTimeMs"], 600_000, "the default is filled in");
    assert_eq!(
        (&run["costUsd"], &run["placement"]),
        (&json!("0"), &json!("inline"))
    );
    assert_eq!(
        run["usage"],
        json!({"modelCalls": 0, "toolCalls": 0, "resultRejections": 0, "tokensIn": 0, "tokensOut": 0, "tokensCached": 0, "tokensReasoning": 0})
    );
    assert_eq!(
        (&run["waitingOn"]["why"], &run["waitingOn"]["since"]),
        (&json!("host"), &run["createdAt"])
    );
}

#[tokio::test]
async fn a_waiting_run_says_why_since_when_and_until_when() {
    let world = World::idle().await;
    let run = world.queued().await;
    let until = world.clock.now().plus_ms(60_000);
    let waiting = Event::RunWaiting(RunWaiting {
        reason: WaitReason::Timer,
        until: Some(until),
    });
    world
        .append(run, vec![encoded(&waiting)], RunStatus::Waiting)
        .await;
    let shown = world.get(&format!("/v1/runs/{}", run.run)).await.json()["run"].clone();
    assert_eq!(shown["status"], "waiting");
    assert_eq!(
        (&shown["waitingOn"]["why"], &shown["waitingOn"]["until"]),
        (&json!("timer"), &json!(until))
    );
    world.succeed(run).await;
    let shown = world.get(&format!("/v1/runs/{}", run.run)).await.json()["run"].clone();
    assert!(shown.get("waitingOn").is_none(), "{shown}");
    assert_eq!(shown["output"], "done");
}

#[tokio::test]
async fn a_wait_is_bounded_and_refused_beyond() {
    let world = World::idle().await;
    let run = world.queued().await.run;
    for bad in ["60001", "-1", "abc", "1.5", "18446744073709551616"] {
        let answer = world.get(&format!("/v1/runs/{run}?waitMs={bad}")).await;
        assert_eq!(answer.code(), (422, "invalid_field".to_owned()), "{bad}");
        assert_eq!(answer.json()["errors"][0]["parameter"], "waitMs");
    }
    let before = world.clock.monotonic_us();
    let answer = world.get(&format!("/v1/runs/{run}?waitMs=120")).await;
    assert_eq!(answer.json()["run"]["status"], "queued");
    assert!(world.clock.monotonic_us() - before >= 120_000, "it waited");
    assert_eq!(
        world
            .get("/v1/runs/run_00000000000000000000000000000000?waitMs=60000")
            .await
            .status
            .as_u16(),
        404
    );
}

#[tokio::test]
async fn a_wait_ends_with_the_run_and_with_the_server() {
    let world = Arc::new(World::idle().await);
    for drain in [false, true] {
        let run = world.queued().await;
        let waiting = {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                world
                    .get(&format!("/v1/runs/{}?waitMs=60000", run.run))
                    .await
                    .json()
            })
        };
        tokio::task::yield_now().await;
        if drain {
            world.shutdown.cancel();
        } else {
            world.succeed(run).await;
        }
        let answer = tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .expect("it ends");
        let expected = if drain { "queued" } else { "succeeded" };
        assert_eq!(answer.expect("no panic")["run"]["status"], expected);
    }
}

#[tokio::test]
async fn lists_filter() {
    let world = World::idle().await;
    world.agent("other", json!({"model": "fake/echo"})).await;
    let made = async |agent: &str, tags: &[&str]| {
        let body = json!({"agentName": agent, "input": "x", "tags": tags}).to_string();
        let answer = world.post("/v1/runs", body).await;
        world.clock.advance_ms(2);
        world.run_ref(&answer)
    };
    let (a, b, c) = (
        made("echo", &["t"]).await,
        made("echo", &[]).await,
        made("other", &["t", "u"]).await,
    );
    world.succeed(b).await;
    let created = world.get(&format!("/v1/runs/{}", b.run)).await.json()["run"]["createdAt"].clone();
    let created = created.as_str().expect("a time");
    let listed = async |query: &str| -> Vec<String> {
        let page = world.get(&format!("/v1/runs?{query}")).await.json();
        let data = page["data"]
            .as_array()
            .unwrap_or_else(|| panic!("{query}: {page}"))
            .clone();
        data.iter()
            .filter_map(|run| run["id"].as_str().map(str::to_owned))
            .collect()
    };
    let ids = |runs: &[portolan_journal::RunRef]| -> Vec<String> {
        runs.iter().map(|run| run.run.to_string()).collect()
    };
    assert_eq!(listed("").await, ids(&[c, b, a]));
    assert_eq!(listed("status=succeeded").await, ids(&[b]));
    assert_eq!(listed("status=queued").await, ids(&[c, a]));
    assert_eq!(listed("agentName=other").await, ids(&[c]));
    assert_eq!(listed("tag=t").await, ids(&[c, a]));
    assert_eq!(listed("tag=t&agentName=echo").await, ids(&[a]));
    assert_eq!(
        listed(&format!("since={created}&agentName=other")).await,
        ids(&[c])
    );
    assert_eq!(listed(&format!("until={created}")).await, ids(&[a]));
}

#[tokio::test]
async fn a_page_ends_early_when_its_runs_are_large() {
    let world = World::idle().await;
    for _ in 0..10 {
        let body = json!({"agentName": "echo", "input": "x".repeat(1_000_000)}).to_string();
        assert_eq!(world.post("/v1/runs", body).await.status.as_u16(), 201);
    }
    let mut seen = 0;
    let mut path = "/v1/runs".to_owned();
    for _ in 0..10 {
        let page = world.get(&path).await.json();
        let count = page["data"].as_array().expect("a list").len();
        assert!((1..10).contains(&count), "{count}");
        seen += count;
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        path = format!("/v1/runs?cursor={cursor}");
    }
    assert_eq!(seen, 10);
}
