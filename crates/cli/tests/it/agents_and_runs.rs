//! Agents and runs of a server, through the commands, with their exit codes.

use crate::support::{Stage, assert_dense, portolan, run, scratch};
use serde_json::Value;
use std::fs;

fn documents(lines: &str) -> Vec<Value> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("one document a line"))
        .collect()
}

#[test]
fn an_agent_is_applied_run_and_looked_at() {
    let stage = Stage::set(&[]);
    let server = stage.serve();
    let agent = stage.write_walker("walker", "");
    let applied = stage
        .on(&server, &["agents", "apply", &agent, "--json"])
        .expect(0)
        .json();
    assert_eq!(applied["agent"]["version"], 1);
    let again = stage
        .on(&server, &["agents", "apply", &agent, "--json"])
        .expect(0)
        .json();
    assert_eq!(
        again["agent"]["version"], 1,
        "the same definition is the same version"
    );
    let listed = stage.on(&server, &["agents", "ls"]).expect(0);
    assert!(listed.stdout.contains("walker"), "{}", listed.stdout);

    // What `get` prints can be applied again.
    let shown = stage.on(&server, &["agents", "get", "walker"]).expect(0);
    fs::write(stage.path().join("again.yaml"), shown.stdout).expect("written");
    let same = stage
        .on(&server, &["agents", "apply", "again.yaml", "--json"])
        .expect(0)
        .json();
    assert_eq!(same["agent"]["version"], 1);

    let done = stage.on(&server, &["run", "walker", "--json"]).expect(0).json();
    assert_eq!(done["run"]["output"], serde_json::json!({"notes": 6}));
    let id = done["run"]["id"].as_str().expect("an id");

    let events = stage.on(&server, &["runs", "events", id, "--jsonl"]).expect(0);
    let events = documents(&events.stdout);
    assert_dense(&events);
    let followed = stage
        .on(&server, &["runs", "events", id, "--follow", "--jsonl"])
        .expect(0);
    assert_eq!(
        documents(&followed.stdout),
        events,
        "the stream and the list are the same"
    );

    let listed = stage
        .on(&server, &["runs", "ls", "--status", "succeeded", "--json"])
        .expect(0)
        .json();
    assert_eq!(listed["data"][0]["id"], id);
    let steps = stage.on(&server, &["runs", "steps", id]).expect(0);
    assert_eq!(steps.stdout.lines().count(), 7 + 6 + 1, "{}", steps.stdout);
    let trace = stage
        .on(&server, &["runs", "trace", id, "--json"])
        .expect(0)
        .json();
    assert_eq!(trace["events"][0]["kind"], "execution.started");
    let got = stage.on(&server, &["runs", "get", id]).expect(0);
    assert!(
        got.stdout.contains("succeeded") && got.stdout.contains("\"notes\": 6"),
        "{}",
        got.stdout
    );

    let artifacts = stage
        .on(&server, &["runs", "artifacts", id, "--json"])
        .expect(0)
        .json();
    assert_eq!(artifacts["data"].as_array().map(Vec::len), Some(6));
    let note = stage
        .on(&server, &["runs", "artifacts", id, "note-1.txt"])
        .expect(0);
    assert_eq!(note.stdout, "a note\n");
    stage
        .on(&server, &["runs", "artifacts", id, "--into", "out"])
        .expect(0);
    assert_eq!(
        fs::read_to_string(stage.path().join("out/note-6.txt")).expect("written"),
        "a note\n"
    );

    stage
        .on(&server, &["runs", "cancel", id])
        .expect(1)
        .says("has ended");
    stage.on(&server, &["agents", "rm", "walker"]).expect(0);
    stage.on(&server, &["run", "walker"]).expect(2).says("agents ls");
}

#[test]
fn a_run_that_fails_is_a_negative_finding() {
    let stage = Stage::set(&[]);
    let server = stage.serve();
    let agent = stage.write_walker("short", "limits = { modelCalls = 2 }");
    stage.on(&server, &["agents", "apply", &agent]).expect(0);
    let failed = stage.on(&server, &["run", "short", "--follow"]).expect(1);
    assert!(failed.stdout.contains("limit_exhausted"), "{}", failed.stdout);
    let document = stage.on(&server, &["run", "short", "--json"]).expect(1).json();
    assert_eq!(document["run"]["error"]["limit"], "modelCalls");
}

#[test]
fn definitions_that_cannot_run_are_refused_where_they_are_applied() {
    let stage = Stage::set(&[]);
    let server = stage.serve();
    for (more, named) in [
        ("approval = { tools = [\"editor\"] }", "approvals yet"),
        ("runtime = { isolation = \"microvm\" }", "isolation"),
        ("runtime = { isolation = \"process\" }", "isolation"),
    ] {
        let agent = stage.write_walker("walker", more);
        let refused = stage.on(&server, &["agents", "apply", &agent]).expect(2);
        assert!(refused.stderr.contains(named), "{more}: {}", refused.stderr);
    }
    let other = "name = \"x\"\nmodel = \"anthropic/claude\"\ntask = \"x\"\nresultSchema = {}\n";
    fs::write(stage.path().join("other.toml"), other).expect("written");
    stage
        .on(&server, &["agents", "apply", "other.toml"])
        .expect(2)
        .says("not supported yet");
}

#[test]
fn failures_say_whose_turn_it_is() {
    let stage = Stage::set(&[]);
    let server = stage.serve();
    stage
        .on(&server, &["runs", "get", "run_00000000000000000000000000000000"])
        .expect(2)
        .says("runs ls");
    let mut wrong_key = portolan(stage.path(), &["runs", "ls"]);
    wrong_key
        .env("PORTOLAN_URL", &server.url)
        .env("PORTOLAN_API_KEY", "pk_wrong");
    crate::support::Ended::of(wrong_key)
        .expect(2)
        .says("PORTOLAN_API_KEY");
    let url = server.url.clone();
    drop(server);
    run(stage.path(), &["runs", "ls", "--url", &url])
        .expect(4)
        .says("portolan serve");
    let directory = scratch();
    run(directory.path(), &["runs", "ls", "--url", "nonsense"]).expect(2);
    run(directory.path(), &["runs"]).expect(2);
    run(directory.path(), &["frobnicate"]).expect(2);
    run(directory.path(), &["--version"]).expect(0);
}
