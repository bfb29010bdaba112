//! Streams that are cut, stalled and crowded: what a reader misses it gets again, and it hurts nobody else.

use crate::support::{
    World, note,
    socket::{Client, Served},
};
use axum::body::Body;
use http::StatusCode;
use portolan_control_plane::ServeLimits;
use portolan_journal::{NewEvent, RunRef, RunStatus};
use std::{sync::atomic::Ordering, time::Duration};

/// Events of all kinds of payloads: no payload at all, line breaks, what is no JSON, kinds of a later build.
async fn odd_run(world: &World) -> RunRef {
    let run = world.queued().await;
    let odd = |kind: &'static str, payload: &'static [u8]| NewEvent {
        kind: kind.into(),
        step: None,
        attempt: None,
        payload: payload.into(),
    };
    let events = vec![
        note("one\n\ntwo\r\n\u{0}: data: id: 7"),
        odd("step_warped", b"\r\n{\n\r\n\"a\":\n1}\n"),
        odd("step_warped", b"\x00\xff\n\nid: 99\ndata: forged\n\n"),
        odd("no kind\n\nid: 98", b"{}"),
        note("\u{feff}caf\u{e9} \u{1f600}"),
    ];
    world.append(run, events, RunStatus::Running).await;
    world.succeed(run).await;
    run
}

async fn stream(world: &World, run: RunRef, after: Option<u64>) -> (StatusCode, Vec<u8>) {
    let mut request = world.request("GET", &format!("/v1/runs/{}/events", run.run));
    if let Some(after) = after {
        request = request.header("last-event-id", after);
    }
    let answer = world.send(request.body(Body::empty()).expect("a request")).await;
    (answer.status, answer.body)
}

/// What a reader keeps of bytes that end anywhere: the frames that came whole, and the id of the last.
fn whole_frames(bytes: &[u8]) -> (&[u8], Option<u64>) {
    let end = bytes.windows(2).rposition(|pair| pair == b"\n\n");
    let whole = &bytes[..end.map_or(0, |end| end + 2)];
    let ids = whole.split(|byte| *byte == b'\n').rev().find_map(|line| {
        let id = line.strip_prefix(b"id: ")?;
        std::str::from_utf8(id).ok()?.parse().ok()
    });
    (whole, ids)
}

#[tokio::test]
async fn a_stream_that_is_cut_after_any_byte_is_continued_exactly() {
    let world = World::idle().await;
    let run = odd_run(&world).await;
    let (status, all) = stream(&world, run, None).await;
    assert_eq!(status, StatusCode::OK);
    let frames = String::from_utf8_lossy(&all).matches("\n\n").count();
    assert_eq!(frames, 7, "the events are the only frames");
    for cut in 0..=all.len() {
        let (seen, last) = whole_frames(&all[..cut]);
        let (status, rest) = stream(&world, run, last).await;
        let expected = if last == Some(7) {
            StatusCode::NO_CONTENT
        } else {
            StatusCode::OK
        };
        assert_eq!(status, expected, "cut at {cut}");
        assert_eq!([seen, &rest].concat(), all, "cut at {cut}");
    }
}

async fn follow(world: &World, served: &Served, run: RunRef) -> Client {
    let mut client = Client::connect(served).await;
    client.say(head(world, run)).await;
    client
}

fn head(world: &World, run: RunRef) -> String {
    format!(
        "GET /v1/runs/{}/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        run.run, world.key
    )
}

/// The stalled reader is never cut here, so whatever gets on does so beside it.
#[tokio::test]
async fn readers_that_take_nothing_keep_nobody_else_waiting() {
    let world = World::idle().await;
    let patient = ServeLimits {
        write_stall_ms: 600_000,
        ..ServeLimits::default()
    };
    let served = world.serve(patient).await;
    let run = world.queued().await;
    let mut stalled = Vec::new();
    for _ in 0..20 {
        stalled.push(follow(&world, &served, run).await);
    }
    let mut quick = Vec::new();
    for _ in 0..5 {
        let mut client = follow(&world, &served, run).await;
        client.hear_until("event: run_queued").await;
        quick.push(client);
    }
    // More than a socket and a page hold.
    let large = "x".repeat(600_000);
    for number in 0..12 {
        let event = note(&format!("{large} number {number}."));
        world.append(run, vec![event], RunStatus::Running).await;
        for client in &mut quick {
            client.hear_until(&format!("number {number}.")).await;
        }
    }
    world.succeed(run).await;
    for mut client in quick {
        assert!(client.hear_all().await.contains("event: run_succeeded"));
    }
    // Whoever begins to read again gets all of it, in order.
    let mut late = stalled.pop().expect("twenty");
    let heard = tokio::time::timeout(Duration::from_secs(60), late.hear_all()).await;
    let heard = heard.expect("it ends");
    let ids: Vec<u64> = heard
        .split("\nid: ")
        .skip(1)
        .filter_map(|rest| rest.split('\n').next()?.parse().ok())
        .collect();
    assert_eq!(ids, (1..=14).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_that_is_never_silent_ends_with_its_key() {
    let config = portolan_control_plane::ApiConfig {
        key_ttl_ms: 0,
        ..crate::support::config()
    };
    let world = World::idle_with(config).await;
    let served = world.serve(ServeLimits::default()).await;
    let run = world.queued().await;
    let mut client = follow(&world, &served, run).await;
    client.hear_until("event: run_queued").await;
    let hash = portolan_control_plane::Secret::parse(&world.key)
        .expect("a key")
        .hash(&portolan_control_plane::HashKey::new(crate::support::HASH_KEY));
    world.keys.revoke(&hash);
    // An event comes sooner than any heartbeat, again and again: at the latest when a heartbeat would have been due, it ends.
    let mut reading = tokio::spawn(async move { client.hear_all().await });
    let heard = loop {
        world.clock.advance_ms(60);
        world.append(run, vec![note("busy")], RunStatus::Running).await;
        tokio::select! {
            biased;
            heard = &mut reading => break heard.expect("no panic"),
            () = tokio::task::yield_now() => {}
        }
    };
    assert!(heard.ends_with("0\r\n\r\n"), "it ends in order: {heard}");
}

/// A reader that takes nothing: what was read for it is what stands in the page, in the connection and in the sockets.
#[tokio::test]
async fn little_is_read_ahead_for_a_reader_that_takes_nothing() {
    let world = World::idle().await;
    let one = ServeLimits {
        max_connections: 1,
        write_stall_ms: 150,
        ..ServeLimits::default()
    };
    let of_the_system = 2 * one.send_buffer_bytes;
    let served = world.serve(one).await;
    let run = world.queued().await;
    let kilobyte = "x".repeat(1_000);
    for _ in 0..200 {
        let events = (0..100).map(|_| note(&kilobyte)).collect();
        world.append(run, events, RunStatus::Running).await;
    }
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("it takes less");
    let mut stalled = Client(socket.connect(served.address).await.expect("loopback"));
    stalled.say(head(&world, run)).await;
    // The only place is free again when the server gave up on it.
    let health = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    loop {
        let mut client = Client::connect(&served).await;
        client.say(health).await;
        if client.hear_all().await.starts_with("HTTP/1.1 200") {
            break;
        }
    }
    let read = world.flaky.read_bytes.load(Ordering::SeqCst);
    assert!(read > 64 * 1024, "{read} bytes: it was not stalled by its client");
    // Framed, an event is larger than its payload, so this bounds the frames too.
    let most = 256 * 1024 + of_the_system + 2 * 16 * 1024;
    assert!(read <= most, "{read} bytes were read for it");
}
