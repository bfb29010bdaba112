//! `portolan export` and `portolan replay`: what a server wrote, as a file, and folded again.

use crate::support::{Daemon, Ended, Stage, portolan};
use serde_json::Value;
use std::fs;

/// A server with a run that has ended.
struct Exported {
    stage: Stage,
    server: Daemon,
    run: String,
}

impl Exported {
    fn set() -> Self {
        let stage = Stage::set(&[]);
        let server = stage.serve();
        let agent = stage.write_walker("walker", "");
        stage.on(&server, &["agents", "apply", &agent]).expect(0);
        let ended = stage.on(&server, &["run", "walker", "--json"]).expect(0).json();
        let run = ended["run"]["id"].as_str().expect("an id").to_owned();
        stage.on(&server, &["export", &run, "-o", "run.jsonl"]).expect(0);
        Self { stage, server, run }
    }

    fn file(&self) -> String {
        fs::read_to_string(self.stage.path().join("run.jsonl")).expect("there")
    }

    /// Replays a file without a server.
    fn replay(&self, file: &str) -> Ended {
        let arguments = ["replay", "--from", file, "--json"];
        Ended::of(portolan(self.stage.path(), &arguments))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_exported_whole_and_replays_equal_with_and_without_its_server() {
    let exported = Exported::set();
    let file = exported.file();
    let stdout = exported
        .stage
        .on(&exported.server, &["export", &exported.run])
        .expect(0);
    assert_eq!(stdout.stdout, file, "the same on stdout");
    let lines: Vec<Value> = file
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let header = &lines[0]["header"];
    assert_eq!(header["runId"], exported.run.as_str());
    assert_eq!(header["definition"]["name"], "walker");
    let count = |kind: &str| lines.iter().filter(|line| !line[kind].is_null()).count();
    assert_eq!(header["events"], count("event"));
    assert_eq!(count("blob"), 2, "the first manifest, and what all notes say");
    assert_eq!(lines[lines.len() - 1]["end"]["lines"], lines.len() - 1);

    let live = exported
        .stage
        .on(&exported.server, &["replay", &exported.run, "--json"])
        .expect(0)
        .json();
    let offline = exported.replay("run.jsonl").expect(0).json();
    assert_eq!(live, offline);
    assert_eq!(live["equal"], true);
    assert_eq!(live["events"], count("event"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_cut_or_altered_is_not_replayed() {
    let exported = Exported::set();
    let file = exported.file();
    let path = exported.stage.path().join("bad.jsonl");
    fs::write(&path, &file[..file.len() / 2]).expect("written");
    exported.replay("bad.jsonl").expect(4).says("it was cut");
    fs::write(&path, file.replacen("step_started", "step_startled", 1)).expect("written");
    exported.replay("bad.jsonl").expect(4).says("damaged");
    fs::write(&path, "{}\n").expect("written");
    exported.replay("bad.jsonl").expect(4).says("no export of a run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_was_altered_in_the_store_is_found_at_its_place() {
    let exported = Exported::set();
    let database = exported.stage.path().join("data/portolan.db");
    let database = rusqlite::Connection::open(database).expect("opens");
    let changed = database
        .execute(
            "UPDATE journal_events SET payload = CAST(replace(CAST(payload AS TEXT), 'Take six notes.', 'Take ten notes.') AS BLOB)
             WHERE seq = 2",
            [],
        )
        .expect("is altered");
    assert_eq!(changed, 1);
    let found = exported
        .stage
        .on(&exported.server, &["replay", &exported.run, "--json"])
        .expect(1)
        .json();
    assert_eq!(found["equal"], false);
    assert_eq!(found["difference"]["seq"], 3, "{found}");
    assert_eq!(found["difference"]["kind"], "request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_not_there_is_not_exported_and_leaves_no_file() {
    let exported = Exported::set();
    let missing = "run_00000000000000000000000000000000";
    exported
        .stage
        .on(&exported.server, &["export", missing, "-o", "none.jsonl"])
        .expect(2);
    let left: Vec<String> = fs::read_dir(exported.stage.path())
        .expect("readable")
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.starts_with("none"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
