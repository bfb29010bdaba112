//! `portolan export`, `replay` and `import`: what a server wrote, as a file, folded again, and put elsewhere.

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

/// The lines without the header, whose origin is another one elsewhere, and without the digest that covers it.
fn body(file: &str) -> Vec<&str> {
    let lines: Vec<&str> = file.lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

/// Imports into the data directory `other`.
fn import(stage: &Stage) -> Ended {
    let arguments = ["import", "run.jsonl", "--json", "--data", "other"];
    Ended::of(portolan(stage.path(), &arguments))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_imported_into_another_data_directory_and_is_the_same_there() {
    let exported = Exported::set();
    let stage = &exported.stage;
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", "other"];
    let other = Daemon::start(stage.path(), "other.log", &serve);
    import(stage).expect(4).says("stop the server");
    other.kill();
    let done = import(stage).expect(0).json();
    assert_eq!(done["runId"], exported.run.as_str());
    import(stage).expect(1).says("already");
    let verify = ["verify", "--json", "--data", "other"];
    let clean = Ended::of(portolan(stage.path(), &verify)).expect(0).json();
    assert_eq!(clean["audited"]["ended"], 1, "{clean}");

    let other = Daemon::start(stage.path(), "other.log", &serve);
    let on = |arguments: &[&str]| {
        let mut command = portolan(stage.path(), arguments);
        command
            .env("PORTOLAN_URL", &other.url)
            .env("PORTOLAN_DATA", "other");
        Ended::of(command).expect(0)
    };
    assert_eq!(
        body(&on(&["export", &exported.run]).stdout),
        body(&exported.file())
    );
    on(&["replay", &exported.run]);
    let artifacts = on(&["runs", "artifacts", &exported.run, "--json"]).json();
    let path = artifacts["data"][0]["path"].as_str().expect("a note");
    let content = on(&["runs", "artifacts", &exported.run, path]);
    assert_eq!(content.stdout, "a note\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_imported_into_postgres_while_its_server_runs() {
    let exported = Exported::set();
    let cluster = portolan_testkit::postgres::Cluster::start();
    let database = cluster.database();
    // The server holds its data directory, so the command is given another one, and the key.
    let stage = &exported.stage;
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        "other",
        "--database",
        &database,
    ];
    let server = Daemon::start(stage.path(), "other.log", &serve);
    let key = fs::read_to_string(stage.path().join("other/admin.key")).expect("there");
    let mut command = portolan(
        stage.path(),
        &["import", "run.jsonl", "--database", &database, "--data", "held"],
    );
    command.env("PORTOLAN_API_KEY", key.trim());
    Ended::of(command).expect(0);
    let mut command = portolan(stage.path(), &["export", &exported.run]);
    command
        .env("PORTOLAN_URL", &server.url)
        .env("PORTOLAN_DATA", "other");
    let again = Ended::of(command).expect(0);
    assert_eq!(body(&again.stdout), body(&exported.file()));
    let verify = ["verify", "--json", "--database", &database];
    let clean = Ended::of(portolan(stage.path(), &verify)).expect(0).json();
    assert_eq!(clean["audited"]["ended"], 1, "{clean}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_damaged_or_has_not_ended_is_not_imported() {
    let exported = Exported::set();
    let path = exported.stage.path().join("run.jsonl");
    let whole = exported.file();
    let other = Daemon::start(
        exported.stage.path(),
        "other.log",
        &["serve", "--listen", "127.0.0.1:0", "--data", "other"],
    );
    other.kill();
    fs::write(&path, &whole[..whole.len() - 10]).expect("written");
    import(&exported.stage).expect(1).says("it was cut");
    fs::write(&path, whole.replacen("a note", "b note", 1)).expect("written");
    import(&exported.stage).expect(1).says("damaged");

    // Rewritten so that the file is whole and the run is not.
    let rewrite = |keep: &dyn Fn(&portolan_core::event::Recorded) -> bool| {
        use portolan_journal::export::{Decoder, Encoder, Item};
        let mut decoder = Decoder::open(whole.as_bytes()).expect("whole");
        let (mut events, mut blobs) = (Vec::new(), Vec::new());
        while let Some(item) = decoder.next_item().expect("whole") {
            match item {
                Item::Event(record) if keep(&record) => events.push(record),
                Item::Event(_) => {}
                Item::Blob(digest, content) => blobs.push((digest, content)),
            }
        }
        let mut header = decoder.header().clone();
        header.events = events.len() as u64;
        let (mut encoder, mut file) = Encoder::begin(header).expect("encodes");
        for record in &events {
            file.extend(encoder.event(record).expect("encodes"));
        }
        for (digest, content) in blobs {
            file.extend(encoder.blob(digest, &content).expect("encodes"));
        }
        file.extend(encoder.end().expect("encodes"));
        fs::write(&path, file).expect("written");
    };
    rewrite(&|record| record.kind != "run_succeeded");
    import(&exported.stage).expect(1).says("has not ended");
    rewrite(&|record| record.seq.0 != 5);
    import(&exported.stage).expect(1).says("not_dense");
    fs::write(&path, &whole).expect("written");
    import(&exported.stage).expect(0);
}
