//! The event stream: replay, tail, resume, end.

use crate::support::{Answer, World, note};
use axum::body::Body;
use futures::StreamExt;
use http::{Response, StatusCode};
use portolan_journal::{RunRef, RunStatus};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

/// One frame, as a browser reads it.
#[derive(Debug, Clone, PartialEq)]
struct Frame {
    id: u64,
    event: String,
    data: Value,
}

fn frames(text: &str) -> Vec<Frame> {
    let line = |frame: &str, name: &str| {
        let start = format!("{name}: ");
        let lines: Vec<&str> = frame
            .lines()
            .filter_map(|line| line.strip_prefix(&start))
            .collect();
        assert_eq!(lines.len(), 1, "{frame}");
        lines[0].to_owned()
    };
    text.split("\n\n")
        .filter(|frame| frame.contains("data:"))
        .map(|frame| Frame {
            id: line(frame, "id").parse().expect("a number"),
            event: line(frame, "event"),
            data: serde_json::from_str(&line(frame, "data")).expect("JSON"),
        })
        .collect()
}

fn ids(text: &str) -> Vec<u64> {
    frames(text).iter().map(|frame| frame.id).collect()
}

async fn ask(world: &World, run: RunRef, query: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = world.request("GET", &format!("/v1/runs/{}/events{query}", run.run));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = world.send(request.body(Body::empty()).expect("a request"));
    tokio::time::timeout(Duration::from_secs(20), answer)
        .await
        .expect("the stream ends")
}

/// A stream that is read piece by piece.
struct Tail(axum::body::BodyDataStream);

impl Tail {
    async fn open(world: &World, run: RunRef) -> Self {
        let request = world.request("GET", &format!("/v1/runs/{}/events", run.run));
        let request = request.body(Body::empty()).expect("a request");
        let response: Response<Body> = world.router.clone().oneshot(request).await.expect("never fails");
        assert_eq!(response.status(), StatusCode::OK);
        Self(response.into_body().into_data_stream())
    }

    /// The next piece, without heartbeats; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            let piece = tokio::time::timeout(Duration::from_secs(20), self.0.next());
            let piece = piece.await.expect("something comes")?.expect("no error");
            let text = String::from_utf8(piece.to_vec()).expect("UTF-8");
            if !text.starts_with(": still here") {
                return Some(text);
            }
        }
    }
}

async fn ended_run(world: &World) -> RunRef {
    let run = world.queued().await;
    world
        .append(run, vec![note("one"), note("two")], RunStatus::Running)
        .await;
    world.succeed(run).await;
    run
}

#[tokio::test]
async fn a_run_that_has_ended_is_replayed_and_the_stream_ends() {
    let world = World::idle().await;
    let run = ended_run(&world).await;
    let answer = ask(&world, run, "", &[]).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let text = String::from_utf8(answer.body).expect("UTF-8");
    let frames = frames(&text);
    let kinds: Vec<&str> = frames.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(kinds, ["run_queued", "note", "note", "run_succeeded"]);
    for (index, frame) in (1..).zip(&frames) {
        assert_eq!(frame.id, index, "dense from 1");
        assert_eq!(frame.data["seq"], index);
        assert_eq!(frame.data["kind"], frame.event);
    }
    assert_eq!(frames[1].data["data"], json!({"text": "one"}));
    assert_eq!(frames[3].data["data"]["output"], "done");
}

#[tokio::test]
async fn a_tail_gets_what_is_committed_and_nothing_twice() {
    let world = World::idle().await;
    let run = world.queued().await;
    let mut tail = Tail::open(&world, run).await;
    let mut seen = vec![tail.next().await.expect("run_queued")];
    for text in ["a", "b"] {
        world.append(run, vec![note(text)], RunStatus::Running).await;
        let frame = tail.next().await.expect("the note");
        assert!(frame.contains(&format!("{{\"text\":\"{text}\"}}")), "{frame}");
        seen.push(frame);
    }
    world
        .append(run, vec![note("c"), note("d")], RunStatus::Running)
        .await;
    world.succeed(run).await;
    while let Some(frame) = tail.next().await {
        seen.push(frame);
    }
    assert_eq!(ids(&seen.concat()), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn row_75_and_resuming_goes_on_strictly_after() {
    let world = World::idle().await;
    let run = ended_run(&world).await;
    let got = async |query: &str, headers: &[(&str, &str)]| {
        ids(&String::from_utf8(ask(&world, run, query, headers).await.body).expect("UTF-8"))
    };
    assert_eq!(got("", &[("last-event-id", "0")]).await, [1, 2, 3, 4], "row 75");
    assert_eq!(got("?after=0", &[]).await, [1, 2, 3, 4], "row 75");
    assert_eq!(got("?after=1", &[]).await, [2, 3, 4]);
    assert_eq!(got("", &[("last-event-id", "3")]).await, [4]);
    // A browser sends the header again and keeps the address.
    assert_eq!(got("?after=1", &[("last-event-id", "2")]).await, [3, 4]);
    // Whatever the connections: together they are the journal.
    let mut all = Vec::new();
    for after in ["0", "1", "2", "3"] {
        let page = got("", &[("last-event-id", after)]).await;
        all.push(page[0]);
    }
    assert_eq!(all, [1, 2, 3, 4]);
}

#[tokio::test]
async fn rows_73_and_74_a_cursor_is_a_sequence_that_exists() {
    let world = World::idle().await;
    let (ended, moving) = (ended_run(&world).await, world.queued().await);
    for bad in ["abc", "-1", "1.0", "18446744073709551616", "", "+1", "0x1"] {
        for headers in [vec![("last-event-id", bad)], vec![]] {
            let query = if headers.is_empty() {
                format!("?after={}", bad.replace('+', "%2B"))
            } else {
                String::new()
            };
            let answer = ask(&world, ended, &query, &headers).await;
            assert_eq!(
                answer.code(),
                (400, "bad_event_id".to_owned()),
                "row 73: {bad:?} {query}"
            );
        }
    }
    let twice = [("last-event-id", "1"), ("last-event-id", "1")];
    assert_eq!(ask(&world, ended, "", &twice).await.code().1, "bad_event_id");
    let ahead = ask(&world, moving, "?after=2", &[]).await;
    assert_eq!(ahead.code(), (409, "cursor_ahead".to_owned()), "row 73");
    assert_eq!(ahead.json()["runId"], moving.run.to_string());
    for after in ["4", "5", "18446744073709551615"] {
        let answer = ask(&world, ended, "", &[("last-event-id", after)]).await;
        assert_eq!(
            (answer.status, answer.body.len()),
            (StatusCode::NO_CONTENT, 0),
            "row 74: {after}"
        );
        assert!(answer.header("x-request-id").is_some());
    }
}

#[tokio::test]
async fn row_31_the_form_follows_accept() {
    let world = World::idle().await;
    let run = ended_run(&world).await;
    let answer = ask(&world, run, "", &[("accept", "text/html")]).await;
    assert_eq!(answer.code(), (406, "not_acceptable".to_owned()));
    let list = ask(&world, run, "", &[("accept", "application/json")])
        .await
        .json();
    let seqs: Vec<u64> = list["data"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|e| e["seq"].as_u64())
        .collect();
    assert_eq!((seqs, &list["hasMore"]), (vec![1, 2, 3, 4], &json!(false)));
    let stream = ask(&world, run, "", &[]).await;
    let shown: Vec<Value> = frames(&String::from_utf8(stream.body).expect("UTF-8"))
        .into_iter()
        .map(|frame| frame.data)
        .collect();
    assert_eq!(list["data"], json!(shown), "both forms show the same objects");
    let page = ask(&world, run, "?after=1&limit=2", &[("accept", "application/json")])
        .await
        .json();
    assert_eq!(
        (page["data"].as_array().expect("a list").len(), &page["hasMore"]),
        (2, &json!(true))
    );
    assert_eq!(page["nextCursor"], "3");
    let last = ask(&world, run, "?after=3&limit=2", &[("accept", "application/json")])
        .await
        .json();
    assert_eq!(
        (&last["data"][0]["seq"], &last["hasMore"]),
        (&json!(4), &json!(false))
    );
    let posted = world
        .request("POST", "/v1/runs")
        .header("content-type", "application/json")
        .header("accept", "text/html")
        .body(Body::from(r#"{"agentName":"echo","input":"x"}"#));
    let posted = world.send(posted.expect("a request")).await;
    assert_eq!(
        posted.status,
        StatusCode::CREATED,
        "Accept is not enforced where there is one form"
    );
    assert_eq!(posted.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn silence_is_filled_and_a_revoked_key_ends_it() {
    let config = portolan_control_plane::ApiConfig {
        key_ttl_ms: 0,
        ..crate::support::config()
    };
    let world = World::idle_with(config).await;
    let run = world.queued().await;
    let mut tail = Tail::open(&world, run).await;
    tail.next().await.expect("run_queued");
    let piece = tail.0.next().await.expect("a heartbeat").expect("no error");
    assert!(piece.starts_with(b":") && piece.ends_with(b"\n\n"), "{piece:?}");
    let hash = portolan_control_plane::Secret::parse(&world.key)
        .expect("a key")
        .hash(&portolan_control_plane::HashKey::new(crate::support::HASH_KEY));
    world.keys.revoke(&hash);
    assert_eq!(tail.next().await, None);
}

#[tokio::test]
async fn a_drain_ends_streams_with_a_hint_to_come_again() {
    let world = World::idle().await;
    let run = world.queued().await;
    let mut tail = Tail::open(&world, run).await;
    tail.next().await.expect("run_queued");
    world.shutdown.cancel();
    let last = tail.next().await.expect("the hint");
    assert!(last.contains("retry: "), "{last}");
    assert_eq!(tail.next().await, None);
}

#[tokio::test]
async fn large_events_pass_one_by_one() {
    let world = World::idle().await;
    let run = world.queued().await;
    let large = "x".repeat(200_000);
    for _ in 0..12 {
        world.append(run, vec![note(&large)], RunStatus::Running).await;
    }
    world.succeed(run).await;
    let mut tail = Tail::open(&world, run).await;
    let mut count = 0;
    while let Some(frame) = tail.next().await {
        count += 1;
        assert_eq!(ids(&frame), [count], "a piece is one event");
    }
    assert_eq!(count, 14);
}
