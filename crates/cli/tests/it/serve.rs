//! `portolan serve`: its first and second start, its refusals, its end.

use crate::support::{Stage, assert_charged_once, run, scratch};
use rustix::process::Signal;
use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _};

#[test]
fn the_first_start_makes_a_key_and_the_second_one_keeps_it() {
    let stage = Stage::set(&[]);
    let server = stage.serve();
    assert_eq!(
        server.ready_line,
        format!("portolan is ready on {}\n", server.url)
    );
    let key_file = stage.path().join("data/admin.key");
    let mode = fs::metadata(&key_file).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = stage.admin_key();
    let log = fs::read_to_string(stage.path().join("server.log")).expect("there");
    assert!(log.contains("admin.key"), "{log}");
    assert!(!log.contains(&key), "the key itself is never printed");

    let second = run(
        stage.path(),
        &["serve", "--listen", "127.0.0.1:0", "--data", "data"],
    )
    .expect(4);
    second.says("in use by another process");
    second.says("--data");

    server.signal(Signal::TERM);
    let (status, rest) = server.wait();
    assert_eq!(
        (status.code(), rest.as_str()),
        (Some(0), ""),
        "one line on stdout, and 0 at the end"
    );
    let again = stage.serve();
    stage.on(&again, &["runs", "ls"]).expect(0);
    assert_eq!(stage.admin_key(), key);
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    let directory = scratch();
    let serve = |arguments: &[&str]| {
        let mut all = vec!["serve", "--data", "data"];
        all.extend(arguments);
        run(directory.path(), &all)
    };
    serve(&["--listen", "0.0.0.0:0"])
        .expect(2)
        .says("--insecure-listen");
    serve(&["--database", "mysql://localhost/x"])
        .expect(2)
        .says("postgres://user@host/database");
    serve(&["--database", "postgres://localhost/x?sslmode=require"])
        .expect(2)
        .says("sslmode=require is not supported");
    serve(&["--database", "postgres:///x?host=/nowhere&password=geheim"])
        .expect(4)
        .says("the database cannot be reached");
    serve(&["--console"]).expect(2).says("--console");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    serve(&["--listen", &address]).expect(4).says(&address);

    let file = |text: &str| fs::write(directory.path().join("portolan.toml"), text).expect("written");
    file("lisen = \"127.0.0.1:0\"");
    serve(&[]).expect(2).says("lisen");
    file("[providers.mine]\nbaseUrl = \"http://127.0.0.1:9/v1\"");
    serve(&["--listen", "0.0.0.0:0", "--insecure-listen"])
        .expect(2)
        .says("--allow-private-providers");
    file("[providers.mine]\nbaseUrl = \"http://169.254.169.254/v1\"");
    serve(&["--listen", "127.0.0.1:0"])
        .expect(2)
        .says("never accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_lets_the_step_in_flight_finish_and_the_next_server_goes_on() {
    let stage = Stage::set(&["--hold-call", "3"]);
    let server = stage.serve();
    let agent = stage.write_walker("walker", "");
    stage.on(&server, &["agents", "apply", &agent]).expect(0);
    let id = start_run(&stage, &server.url).await;
    assert_eq!(stage.provider.get("/control/held").await["call"], 3);
    server.signal(Signal::TERM);
    server.wait_for_log("draining");
    stage.provider.release().await;
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(0));
    let sends = stage.sends().await;
    assert_eq!(sends.len(), 3, "no step began after the signal");

    let server = stage.serve();
    let done = stage
        .on(&server, &["runs", "events", &id, "--follow", "--jsonl"])
        .expect(0);
    assert!(done.stdout.contains("run_succeeded"), "{}", done.stdout);
    let sends = stage.sends().await;
    assert_eq!(assert_charged_once(&sends), sends.len(), "no call was sent twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_process_at_once() {
    let stage = Stage::set(&["--hold-call", "2"]);
    let server = stage.serve();
    let agent = stage.write_walker("walker", "");
    stage.on(&server, &["agents", "apply", &agent]).expect(0);
    let id = start_run(&stage, &server.url).await;
    assert_eq!(stage.provider.get("/control/held").await["call"], 2);
    server.signal(Signal::TERM);
    server.wait_for_log("draining");
    server.signal(Signal::TERM);
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(1));

    stage.provider.release().await;
    let server = stage.serve();
    let done = stage
        .on(&server, &["runs", "events", &id, "--follow", "--jsonl"])
        .expect(0);
    assert!(done.stdout.contains("run_succeeded"), "{}", done.stdout);
    let sends = stage.sends().await;
    assert_eq!(
        assert_charged_once(&sends) + 1,
        sends.len(),
        "the call in flight was sent twice"
    );
}

/// Starts a run of the walker without waiting for it.
async fn start_run(stage: &Stage, url: &str) -> String {
    let response = crate::support::client()
        .post(format!("{url}/v1/runs"))
        .bearer_auth(stage.admin_key())
        .header("content-type", "application/json")
        .body(r#"{"agentName":"walker","input":null}"#)
        .send()
        .await
        .expect("it answers");
    let body = response.bytes().await.expect("whole");
    let answer: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    answer["run"]["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned()
}
