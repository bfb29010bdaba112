//! The commands around a server: init, config, doctor, openapi, completions.

use crate::support::{Ended, portolan, run, scratch};
use std::{fs, net::TcpListener};

#[test]
fn init_writes_what_the_other_commands_take() {
    let directory = scratch();
    run(directory.path(), &["init", "helper"]).expect(0);
    let agent = fs::read_to_string(directory.path().join("agent.toml")).expect("written");
    assert!(agent.contains("name = \"helper\""), "{agent}");
    run(directory.path(), &["config", "show"]).expect(0);
    // Without its key the model is refused by name, before anything is sent.
    run(directory.path(), &["run", "agent.toml", "--input", "\"hi\""])
        .expect(2)
        .says("OPENAI_API_KEY");
    run(directory.path(), &["init"]).expect(2).says("--force");
    run(directory.path(), &["init", "no name"]).expect(2);
    run(directory.path(), &["init", "--force"]).expect(0);
}

#[test]
fn config_show_says_where_values_came_from_and_masks_keys() {
    let directory = scratch();
    fs::write(directory.path().join("portolan.toml"), "maxConcurrentRuns = 7").expect("written");
    let mut command = portolan(
        directory.path(),
        &["config", "show", "--json", "--listen", "127.0.0.1:1"],
    );
    command
        .env("OPENAI_API_KEY", "sk-0123456789-secret")
        .env("PORTOLAN_DATA", "elsewhere");
    let shown = Ended::of(command).expect(0);
    assert!(!shown.stdout.contains("0123456789"), "{}", shown.stdout);
    let shown = shown.json();
    for (key, value, from) in [
        ("listen", "127.0.0.1:1", "flag --listen"),
        ("data", "elsewhere", "environment PORTOLAN_DATA"),
        ("providers.openai.apiKey", "…cret", "environment OPENAI_API_KEY"),
        ("logFormat", "text", "default"),
    ] {
        assert_eq!(
            (&shown[key]["value"], &shown[key]["from"]),
            (&value.into(), &from.into()),
            "{key}"
        );
    }
    assert_eq!(
        shown["maxConcurrentRuns"],
        serde_json::json!({"value": 7, "from": "file portolan.toml"})
    );
    fs::write(directory.path().join("portolan.toml"), "maxConcurrentRun = 7").expect("written");
    run(directory.path(), &["config", "show"])
        .expect(2)
        .says("maxConcurrentRun");
}

#[test]
fn doctor_finds_what_would_go_wrong() {
    let directory = scratch();
    let well = run(directory.path(), &["doctor", "--json", "--listen", "127.0.0.1:0"])
        .expect(0)
        .json();
    let checks: Vec<&str> = well["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|f| f["check"].as_str())
        .collect();
    for check in [
        "configuration",
        "data directory",
        "database",
        "port",
        "clock",
        "open files",
        "host shell",
        "providers",
    ] {
        assert!(checks.contains(&check), "{check} is not in {checks:?}");
    }
    assert!(
        !directory.path().join("portolan-data").exists(),
        "looking makes nothing"
    );

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    std::thread::spawn(move || while taken.accept().is_ok() {});
    let ill = run(directory.path(), &["doctor", "--listen", &address]).expect(1);
    assert!(ill.stdout.contains("taken by another program"), "{}", ill.stdout);

    fs::create_dir(directory.path().join("data")).expect("made");
    fs::write(directory.path().join("data/portolan.db"), vec![b'x'; 8_192]).expect("written");
    let damaged = run(
        directory.path(),
        &["doctor", "--data", "data", "--listen", "127.0.0.1:0"],
    )
    .expect(1);
    assert!(damaged.stdout.contains("fail  database"), "{}", damaged.stdout);
}

#[test]
fn the_document_and_the_completions_are_printed() {
    let directory = scratch();
    let document = run(directory.path(), &["openapi"]).expect(0).json();
    assert!(document["paths"]["/v1/runs"]["post"].is_object());
    let script = run(directory.path(), &["completions", "bash"]).expect(0);
    assert!(script.stdout.contains("portolan"));
}
