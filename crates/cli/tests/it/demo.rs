//! `portolan demo`, judged again from outside.

use crate::support::{assert_charged_once, assert_dense, run, scratch};
use serde_json::Value;

fn list<'a>(document: &'a Value, member: &str) -> &'a [Value] {
    document[member].as_array().expect("a list")
}

#[test]
fn the_demo_holds_what_it_claims() {
    let directory = scratch();
    let told = run(directory.path(), &["demo", "--json"]).expect(0).json();
    assert_eq!(told["holds"], true);
    for claim in list(&told, "claims") {
        assert_eq!(claim["holds"], true, "{claim}");
    }
    assert_eq!(told["killed"]["signal"], 9);
    assert_eq!(
        (&told["testsBefore"]["exitCode"], &told["testsAfter"]["exitCode"]),
        (&1.into(), &0.into())
    );
    let (events, sends) = (list(&told, "events"), list(&told, "ledger"));
    assert_dense(events);
    assert!(events.iter().any(|event| event["kind"] == "run_recovered"));
    assert_eq!(
        assert_charged_once(sends) + 1,
        sends.len(),
        "one call was sent twice"
    );
    let twice: Vec<&Value> = sends
        .iter()
        .filter(|send| send["key"] == told["killed"]["key"])
        .collect();
    assert_eq!(twice.len(), 2);
    assert_eq!(
        (&twice[0]["digest"], &twice[0]["bytes"]),
        (&twice[1]["digest"], &twice[1]["bytes"])
    );
    assert_eq!(twice[1]["answered"], "from_key");
    let paths: Vec<&str> = list(&told, "files")
        .iter()
        .filter_map(|file| file["path"].as_str())
        .collect();
    assert_eq!(paths, ["lib/duration.sh", "lib/semver.sh"]);
    assert_eq!(told["result"]["testsPassed"], 15);
    assert!(
        std::fs::read_dir(directory.path())
            .expect("there")
            .next()
            .is_none(),
        "nothing is left behind"
    );
}

#[test]
fn without_a_crash_nothing_is_sent_twice() {
    let directory = scratch();
    let told = run(directory.path(), &["demo", "--no-crash", "--json"])
        .expect(0)
        .json();
    assert!(told["killed"].is_null());
    let sends = list(&told, "ledger");
    assert_eq!(assert_charged_once(sends), sends.len());
    assert!(
        list(&told, "events")
            .iter()
            .all(|event| event["kind"] != "run_recovered")
    );
}

#[test]
fn what_is_kept_can_be_served() {
    let directory = scratch();
    let mut command = crate::support::portolan(directory.path(), &["demo", "--no-crash", "--keep", "--json"]);
    command.env("TMPDIR", directory.path());
    let told = crate::support::Ended::of(command).expect(0).json();
    let kept = told["directory"].as_str().expect("kept").to_owned();
    let data = format!("{kept}/data");
    let server = crate::support::Daemon::start(
        directory.path(),
        "log",
        &["serve", "--listen", "127.0.0.1:0", "--data", &data],
    );
    let id = told["runId"].as_str().expect("an id");
    let shown = run(
        directory.path(),
        &["runs", "get", id, "--json", "--data", &data, "--url", &server.url],
    )
    .expect(0);
    assert_eq!(shown.json()["run"]["status"], "succeeded");
    assert!(std::path::Path::new(&kept).join("ledger.jsonl").exists());
}

#[test]
fn a_model_of_the_callers_configuration_takes_the_place_of_the_script() {
    let stage = crate::support::Stage::set(&["--thinking-ms", "50"]);
    let told = run(stage.path(), &["demo", "--model", "demo/fixer", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&told["model"], &told["holds"]),
        (&"demo/fixer".into(), &true.into())
    );
    assert!(told["ledger"].is_null(), "a real provider shows no ledger");
    assert_eq!(told["killed"]["signal"], 9);
    let unknown = run(stage.path(), &["demo", "--model", "nobody/x"]).expect(2);
    unknown.says("nobody");
}
