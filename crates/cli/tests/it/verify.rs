//! `portolan verify` on a store that is whole, live or left behind, and on one with each kind of damage that it knows.

use crate::support::{Daemon, Ended, Stage, client, portolan};
use portolan_journal::audit::FindingKind;
use rusqlite::Connection;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// A store with two runs that have ended and one in the middle of a model call, whose server was killed.
struct Left {
    stage: Stage,
    ended: String,
    open: String,
}

async fn start(stage: &Stage, server: &Daemon) -> String {
    let request = client()
        .post(format!("{}/v1/runs", server.url))
        .bearer_auth(stage.admin_key())
        .header("content-type", "application/json")
        .body(r#"{"agentName":"walker","input":null}"#);
    let answer = request
        .send()
        .await
        .expect("answers")
        .bytes()
        .await
        .expect("whole");
    let created: Value = serde_json::from_slice(&answer).expect("JSON");
    created["run"]["id"].as_str().expect("an id").to_owned()
}

pub(crate) fn verify(directory: &Path, more: &[&str]) -> Ended {
    let mut command = portolan(directory, &["verify", "--json"]);
    command.args(more);
    Ended::of(command)
}

impl Left {
    async fn behind() -> Self {
        let stage = Stage::set(&["--hold-call", "3"]);
        let server = stage.serve();
        let agent = stage.write_walker("walker", "");
        stage.on(&server, &["agents", "apply", &agent]).expect(0);
        let open = start(&stage, &server).await;
        stage.provider.get("/control/held").await;
        stage.on(&server, &["run", "walker"]).expect(0);
        let ended = stage.on(&server, &["run", "walker", "--json"]).expect(0).json();
        let ended = ended["run"]["id"].as_str().expect("an id").to_owned();
        let live = verify(stage.path(), &["--data", "data"]).expect(0).json();
        assert_eq!(live["audited"]["runs"], 3, "a server may run on it: {live}");
        server.kill();
        // Books that are right: what the run in the middle of its call holds.
        let database = Connection::open(stage.path().join("data/portolan.db")).expect("opens");
        database
            .execute_batch(
                "INSERT INTO budget_scopes (tenant_id, agent, bound, reserved)
                 SELECT tenant_id, '', 1000000000000, sum(reserved) FROM runs WHERE status < 3 GROUP BY tenant_id",
            )
            .expect("is written");
        Self { stage, ended, open }
    }

    fn copy(&self) -> (TempDir, PathBuf) {
        let folder = crate::support::scratch();
        let data = folder.path().join("data");
        copy(&self.stage.path().join("data"), &data);
        (folder, data)
    }

    /// SQL with the ids of the runs in it.
    fn filled(&self, sql: &str) -> String {
        let id = |run: &str| format!("x'{}'", run.strip_prefix("run_").expect("an id"));
        sql.replace("ENDED", &id(&self.ended))
            .replace("OPEN", &id(&self.open))
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("known").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

/// What is changed, and what has to be found.
const DAMAGE: &[(&str, &[FindingKind])] = &[
    (
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = 'CREATE INDEX runs_by_agent ON runs (tenant_id, agent_version, run_id)'
         WHERE name = 'runs_by_agent'",
        &[FindingKind::Damaged],
    ),
    (
        "UPDATE runs SET progress = '{' WHERE run_id = ENDED",
        &[FindingKind::RowUnreadable],
    ),
    (
        "UPDATE runs SET status = 4 WHERE run_id = ENDED",
        &[FindingKind::RowUnreadable],
    ),
    (
        "DELETE FROM journal_events WHERE run_id = ENDED AND kind = 7 AND step_id = 4",
        &[FindingKind::AnsweredUndispatched, FindingKind::NotDense],
    ),
    (
        "UPDATE runs SET next_seq = next_seq + 1 WHERE run_id = ENDED",
        &[FindingKind::CounterDiffers],
    ),
    (
        "UPDATE journal_events SET kind = 'run_teleported' WHERE run_id = ENDED AND seq = 1",
        &[FindingKind::WrongBeginning],
    ),
    (
        "INSERT INTO journal_events (tenant_id, run_id, seq, kind, payload, at)
         SELECT tenant_id, run_id, next_seq, 'run_teleported', x'00', 0 FROM runs WHERE run_id = ENDED;
         UPDATE runs SET next_seq = next_seq + 1 WHERE run_id = ENDED",
        &[FindingKind::EndsTwice],
    ),
    (
        "UPDATE journal_events SET payload = CAST('{}' AS BLOB) WHERE run_id = ENDED AND kind = 8 AND step_id = 3",
        &[FindingKind::Undecodable],
    ),
    (
        "UPDATE journal_events SET step_id = NULL WHERE run_id = ENDED AND kind = 7 AND step_id = 4",
        &[FindingKind::AnsweredUndispatched, FindingKind::Unfoldable],
    ),
    (
        "UPDATE runs SET progress = json_set(progress, '$.usage.modelCalls', 99) WHERE run_id = OPEN",
        &[FindingKind::FoldDiffers],
    ),
    (
        "UPDATE journal_events SET kind = 'run_teleported' WHERE run_id = ENDED AND kind = 7 AND step_id = 4",
        &[FindingKind::AnsweredUndispatched],
    ),
    (
        "UPDATE journal_events SET step_id = 4 WHERE run_id = ENDED AND kind = 7 AND step_id = 6",
        &[FindingKind::AnsweredUndispatched, FindingKind::DispatchedAfterAnswer],
    ),
    (
        "UPDATE journal_events SET attempt = 2 WHERE run_id = ENDED AND step_id = 4",
        &[FindingKind::WrongAttempt],
    ),
    ("DELETE FROM usage WHERE run_id = ENDED", &[FindingKind::UsageMissing]),
    (
        "INSERT INTO usage SELECT tenant_id, OPEN, day, agent, agent_version, model, status, model_calls, tool_calls, tokens_in,
             tokens_out, tokens_cached, tokens_reasoning, cost, cost_is_estimate, imported FROM usage WHERE run_id = ENDED",
        &[FindingKind::UsageTooMuch],
    ),
    (
        "UPDATE usage SET tokens_out = tokens_out + 1 WHERE run_id = ENDED",
        &[FindingKind::UsageDiffers],
    ),
    (
        "UPDATE runs SET settled = settled + 1 WHERE run_id = ENDED",
        &[FindingKind::SettledDiffers],
    ),
    (
        "UPDATE budget_scopes SET reserved = reserved + 1",
        &[FindingKind::ReservationDiffers],
    ),
    (
        "UPDATE runs SET wake_at = 1 WHERE run_id = ENDED",
        &[FindingKind::NotLetGo],
    ),
    (
        "UPDATE runs SET inbox_count = 1 WHERE run_id = OPEN",
        &[FindingKind::InboxDiffers],
    ),
    (
        "INSERT INTO idempotency_keys (tenant_id, key, fingerprint, run_id, expires_at)
         SELECT tenant_id, 'k', zeroblob(32), zeroblob(16), 9 FROM runs LIMIT 1",
        &[FindingKind::Stray],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_damage_is_found_and_nothing_else() {
    let left = Left::behind().await;
    let mut planted = BTreeSet::new();
    {
        let (folder, _data) = left.copy();
        let whole = verify(folder.path(), &["--data", "data"]).expect(0).json();
        assert_eq!(whole["findings"], Value::Array(Vec::new()));
        assert_eq!(whole["audited"]["ended"], 2);
        assert_eq!(whole["audited"]["budgets"], 1);
    }
    for (sql, wanted) in DAMAGE {
        let (folder, data) = left.copy();
        let database = Connection::open(data.join("portolan.db")).expect("opens");
        let sql = left.filled(sql);
        database
            .execute_batch(&sql)
            .unwrap_or_else(|error| panic!("{error}: {sql}"));
        assert!(
            database.changes() > 0 || sql.contains("writable_schema"),
            "nothing was planted: {sql}"
        );
        drop(database);
        assert_found(&folder, wanted, &sql);
        planted.extend(wanted.iter().copied());
    }
    for (kind, spoil) in [
        (FindingKind::BlobMissing, remove as fn(&Path)),
        (FindingKind::BlobDamaged, alter),
    ] {
        let (folder, data) = left.copy();
        spoil(&note(&data.join("blobs")));
        assert_found(&folder, &[kind], "a blob");
        planted.insert(kind);
    }
    let all: BTreeSet<FindingKind> = FindingKind::ALL.iter().copied().collect();
    assert_eq!(planted, all, "every kind of finding was planted");
}

#[track_caller]
fn assert_found(folder: &TempDir, wanted: &[FindingKind], what: &str) {
    let found = verify(folder.path(), &["--data", "data"]).expect(1).json();
    assert_kinds(&found, wanted, what);
}

/// These kinds of finding were printed and no other.
#[track_caller]
pub(crate) fn assert_kinds(found: &Value, wanted: &[FindingKind], what: &str) {
    let kinds: BTreeSet<&str> = found["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|finding| finding["kind"].as_str().expect("a name"))
        .collect();
    let wanted: BTreeSet<&str> = wanted.iter().map(|kind| kind.name()).collect();
    assert_eq!(kinds, wanted, "{what}: {found}");
}

/// The blob of a note that the agent wrote.
fn note(blobs: &Path) -> PathBuf {
    let shelves = fs::read_dir(blobs)
        .expect("readable")
        .map(|shelf| shelf.expect("readable").path());
    let files = shelves.filter(|shelf| !shelf.ends_with("tmp")).flat_map(|shelf| {
        fs::read_dir(shelf)
            .expect("readable")
            .map(|file| file.expect("readable").path())
    });
    files
        .into_iter()
        .find(|file| fs::read(file).is_ok_and(|content| content == b"a note\n"))
        .expect("the agent wrote notes")
}

fn remove(file: &Path) {
    fs::remove_file(file).expect("there");
}

fn alter(file: &Path) {
    fs::write(file, "another note\n").expect("written");
}

#[test]
fn what_cannot_be_audited_is_said() {
    let folder = crate::support::scratch();
    verify(folder.path(), &["--data", "nowhere"])
        .expect(4)
        .says("the store in nowhere cannot be audited");
    assert!(!folder.path().join("nowhere").exists(), "nothing was made");
    verify(folder.path(), &["--run", "x"]).expect(2).says("--run");
}
