//! The accept loop over real sockets: framing, time, bounds, drain.

use crate::support::{
    World, note,
    socket::{Client, Served, status},
};
use portolan_control_plane::{ServeLimits, serve::Drained};
use portolan_journal::RunStatus;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

fn limits() -> ServeLimits {
    ServeLimits {
        header_timeout_ms: 150,
        write_stall_ms: 150,
        drain_ms: 10_000,
        ..ServeLimits::default()
    }
}

fn head(world: &World, line: &str, more: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n{more}\r\n",
        world.key
    )
}

async fn say(served: &Served, text: &str) -> String {
    let mut client = Client::connect(served).await;
    client.say(text).await;
    client.hear_all().await
}

const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn row_24_a_head_that_never_ends_is_closed() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    for start in [
        "",
        "GET /v1/runs HTTP/1.1\r\n",
        "GET /v1/runs HTTP/1.1\r\nHost: a\r\nX: y",
    ] {
        let answer = say(&served, start).await;
        assert!(answer.is_empty() || status(&answer) == 408, "{answer}");
    }
}

#[tokio::test]
async fn row_23_a_body_that_drips_is_answered_408_and_closed() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    let mut client = Client::connect(&served).await;
    client
        .say(head(
            &world,
            "POST /v1/runs",
            &format!("{JSON}Content-Length: 1000\r\n"),
        ))
        .await;
    client.say("{").await;
    let answer = client.hear_all().await;
    assert_eq!(status(&answer), 408);
    assert!(answer.contains("body_timeout"), "{answer}");
}

#[tokio::test]
async fn rows_21_and_80_what_is_refused_by_its_head_is_not_read() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    let huge = format!("{JSON}Content-Length: 10737418240\r\nExpect: 100-continue\r\n");
    let answer = say(&served, &head(&world, "POST /v1/runs", &huge)).await;
    assert_eq!(status(&answer), 413, "row 21");
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    let anonymous = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: a\r\n{JSON}Content-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    );
    let answer = say(&served, &anonymous).await;
    assert_eq!(status(&answer), 401, "row 80: {answer}");

    let mut client = Client::connect(&served).await;
    let body = r#"{"agentName":"echo","input":"x"}"#;
    let wanted = format!(
        "{JSON}Content-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n",
        body.len()
    );
    client.say(head(&world, "POST /v1/runs", &wanted)).await;
    client.hear_until("100 Continue").await;
    client.say(body).await;
    assert_eq!(status(&client.hear_all().await), 201);
}

#[tokio::test]
async fn row_22_a_chunked_body_ends_at_the_limit() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    let client = Client::connect(&served).await;
    let (mut reading, mut writing) = client.0.into_split();
    let head = head(
        &world,
        "POST /v1/runs",
        &format!("{JSON}Transfer-Encoding: chunked\r\n"),
    );
    let flood = tokio::spawn(async move {
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        writing.write_all(head.as_bytes()).await?;
        loop {
            writing.write_all(chunk.as_bytes()).await?;
        }
        #[expect(unreachable_code, reason = "names the type of the error")]
        Ok::<(), std::io::Error>(())
    });
    let mut heard = vec![0; 12];
    let read = tokio::io::AsyncReadExt::read_exact(&mut reading, &mut heard);
    tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .expect("an answer")
        .expect("an answer");
    assert_eq!(status(&String::from_utf8_lossy(&heard)), 413);
    let ended = tokio::time::timeout(Duration::from_secs(20), flood)
        .await
        .expect("the connection is closed");
    assert!(ended.expect("no panic").is_err());
}

#[tokio::test]
async fn row_25_two_ways_to_end_a_body_are_refused_in_any_order() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
    for (first, second) in [(length, chunked), (chunked, length)] {
        let request = format!(
            "{}0\r\n\r\n",
            head(&world, "POST /v1/runs", &format!("{JSON}{first}{second}"))
        );
        let smuggled = format!("{request}{}", head(&world, "GET /v1/runs", ""));
        let answer = say(&served, &smuggled).await;
        assert_eq!(status(&answer), 400, "{first}{second}: {answer}");
        assert_eq!(
            answer.matches("HTTP/1.1 ").count(),
            1,
            "nothing is answered after it: {answer}"
        );
    }
    let lengths = format!("{JSON}Content-Length: 5\r\nContent-Length: 6\r\n");
    assert_eq!(
        status(&say(&served, &head(&world, "POST /v1/runs", &lengths)).await),
        400
    );
    let unknown = format!("{JSON}Transfer-Encoding: gzip\r\n");
    assert_eq!(
        status(&say(&served, &head(&world, "POST /v1/runs", &unknown)).await),
        400
    );
}

#[tokio::test]
async fn row_60_heads_are_bounded_on_the_wire() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    let long = "a".repeat(64 * 1024);
    let target = head(&world, &format!("GET /v1/runs?tag={long}"), "");
    assert_eq!(status(&say(&served, &target).await), 414);
    let field = head(&world, "GET /v1/runs", &format!("X-Long: {long}\r\n"));
    assert_eq!(status(&say(&served, &field).await), 431);
    let many: String = (0..200).map(|n| format!("X-{n}: a\r\n")).collect();
    assert_eq!(
        status(&say(&served, &head(&world, "GET /v1/runs", &many)).await),
        431
    );
    let token = format!("GET /v1/runs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {long}\r\n\r\n");
    assert_eq!(status(&say(&served, &token).await), 431, "row 46");
    let endless = format!("GET /v1/runs HTTP/1.1\r\nX: {}", "a".repeat(1024 * 1024));
    assert_eq!(status(&say(&served, &endless).await), 431);
}

#[tokio::test]
async fn row_81_a_bad_request_in_a_pipeline_ends_it() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    let good = head(&world, "GET /v1/runs", "");
    let answer = say(&served, &format!("{good}{good}GARBAGE\r\n\r\n{good}")).await;
    let statuses: Vec<u16> = answer
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| status(&answer[at..]))
        .collect();
    assert_eq!(statuses, [200, 200, 400], "{answer}");
}

#[tokio::test]
async fn row_86_on_the_wire() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    for (request, expected) in [
        ("GET /healthz HTTP/1.1\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET http://b/healthz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", 405),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        ("GET /healthz HTTP/1.0\r\n\r\n", 200),
    ] {
        let answer = say(&served, request).await.replacen("HTTP/1.0", "HTTP/1.1", 1);
        assert_eq!(status(&answer), expected, "{request}");
    }
}

#[tokio::test]
async fn row_87_nothing_that_is_reflected_splits_an_answer() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    let target = head(&world, "GET /v1/runs/a%0d%0aX-Evil:%201", "Connection: close\r\n");
    let answer = say(&served, &target).await;
    assert_eq!(status(&answer), 404);
    assert!(!answer.contains("\r\nX-Evil"), "{answer}");
    let id = head(
        &world,
        "GET /healthz",
        "X-Request-Id: a b\r\nConnection: close\r\n",
    );
    assert!(say(&served, &id).await.contains("x-request-id: req_"));
}

#[tokio::test]
async fn connections_beyond_the_cap_are_told_so() {
    let world = World::idle().await;
    let one = ServeLimits {
        max_connections: 1,
        header_timeout_ms: 10_000,
        ..limits()
    };
    let served = world.serve(one).await;
    let mut first = Client::connect(&served).await;
    first.say("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await;
    first.hear_until("\"ok\"").await;
    let mut second = Client::connect(&served).await;
    let refused = second.hear_all().await;
    assert_eq!(status(&refused), 503);
    assert!(refused.contains("too_many_connections"), "{refused}");
    drop(first);
    loop {
        let answer = say(
            &served,
            "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .await;
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
    }
}

#[tokio::test]
async fn row_76_a_client_that_goes_is_noticed() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    let run = world.queued().await;
    let request = head(
        &world,
        &format!("GET /v1/runs/{}/events", run.run),
        "Content-Length: 3\r\n",
    );
    let mut client = Client::connect(&served).await;
    client.say(format!("{request}abc")).await;
    client.hear_until("run_queued").await;
    client.0.shutdown().await.expect("half of it closes");
    client.hear_all().await;
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_and_can_resume() {
    let world = World::idle().await;
    let one = ServeLimits {
        max_connections: 1,
        ..limits()
    };
    let served = world.serve(one).await;
    let run = world.queued().await;
    let large = "x".repeat(500_000);
    for _ in 0..40 {
        world.append(run, vec![note(&large)], RunStatus::Running).await;
    }
    let path = format!("GET /v1/runs/{}/events", run.run);
    let mut stalled = Client::connect(&served).await;
    stalled.say(head(&world, &path, "")).await;
    // The only place is free again when the server gave up on the one who does not read.
    let health = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    while !say(&served, health).await.starts_with("HTTP/1.1 200") {}
    let heard = stalled.hear_all().await;
    assert!(heard.len() < 19_000_000, "the rest was not sent: {}", heard.len());
    let last = heard
        .rsplit("id: ")
        .nth(1)
        .and_then(|rest| rest.split('\n').next())
        .expect("an event came");
    world.succeed(run).await;
    let resumed = head(
        &world,
        &path,
        &format!("Last-Event-ID: {last}\r\nConnection: close\r\n"),
    );
    let rest = loop {
        let rest = say(&served, &resumed).await;
        if rest.starts_with("HTTP/1.1 200") {
            break rest;
        }
    };
    let next: u64 = last.parse::<u64>().expect("a number") + 1;
    assert!(rest.contains(&format!("id: {next}\n")) && rest.contains("run_succeeded"));
}

#[tokio::test]
async fn events_arrive_one_by_one_on_the_wire() {
    let world = World::idle().await;
    let served = world.serve(limits()).await;
    let run = world.queued().await;
    let mut client = Client::connect(&served).await;
    client
        .say(head(
            &world,
            &format!("GET /v1/runs/{}/events", run.run),
            "Connection: close\r\n",
        ))
        .await;
    client.hear_until("event: run_queued").await;
    world.append(run, vec![note("first")], RunStatus::Running).await;
    client.hear_until("first").await;
    world.succeed(run).await;
    let rest = client.hear_all().await;
    assert!(
        rest.contains("run_succeeded") && rest.ends_with("0\r\n\r\n"),
        "{rest}"
    );
}

#[tokio::test]
async fn a_drain_finishes_what_it_began() {
    let world = World::idle().await;
    let patient = ServeLimits {
        header_timeout_ms: 10_000,
        ..limits()
    };
    let served = world.serve(patient).await;
    let run = world.queued().await;
    let mut waiting = Client::connect(&served).await;
    waiting
        .say(head(
            &world,
            &format!("GET /v1/runs/{}?waitMs=60000", run.run),
            "",
        ))
        .await;
    let mut stream = Client::connect(&served).await;
    stream
        .say(head(&world, &format!("GET /v1/runs/{}/events", run.run), ""))
        .await;
    stream.hear_until("run_queued").await;
    let mut idle = Client::connect(&served).await;
    idle.say("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await;
    idle.hear_until("\"ok\"").await;

    world.shutdown.cancel();
    let answer = waiting.hear_all().await;
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(stream.hear_all().await.contains("retry: "));
    assert_eq!(idle.hear_all().await, "", "an idle connection is closed");
    let ended = tokio::time::timeout(Duration::from_secs(20), served.server)
        .await
        .expect("it ends");
    assert_eq!(ended.expect("no panic"), Drained::Cleanly);
    assert!(
        tokio::net::TcpStream::connect(served.address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn a_drain_cuts_what_takes_too_long() {
    let world = World::idle().await;
    let short = ServeLimits {
        drain_ms: 100,
        header_timeout_ms: 60_000,
        ..limits()
    };
    let served = world.serve(short).await;
    let mut client = Client::connect(&served).await;
    client
        .say(head(
            &world,
            "POST /v1/runs",
            &format!("{JSON}Content-Length: 10\r\nExpect: 100-continue\r\n"),
        ))
        .await;
    client.hear_until("100 Continue").await;
    world.shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(20), served.server)
        .await
        .expect("it ends");
    // The body times out in about the same time: then its answer is the last thing that is finished.
    assert!(matches!(
        ended.expect("no panic"),
        Drained::Cut(1) | Drained::Cleanly
    ));
}
