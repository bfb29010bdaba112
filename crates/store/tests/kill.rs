//! A process that is killed while it writes loses nothing that it was told is committed.

use super::work::{admission, append, ending, run};
use portolan_core::ids::Seq;
use portolan_journal::{Appended, JournalStore, RunStatus};
use portolan_store::SqliteStore;
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

const DIRECTORY: &str = "PORTOLAN_TEST_KILLED_STORE";
const WRITERS: u64 = 16;
const ACKNOWLEDGED: usize = 1_500;

/// The process that is killed. It tells of each commit that it heard of.
#[test]
#[ignore = "it is the child of the test below, and writes until it is killed"]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("starts");
    runtime.block_on(async {
        let store = Arc::new(SqliteStore::open(Path::new(&directory)).expect("opens"));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| tokio::spawn(write(Arc::clone(&store), number)))
            .collect();
        for writer in writers {
            writer.await.expect("goes on until it is killed");
        }
    });
}

async fn write(store: Arc<SqliteStore>, writer: u64) {
    for round in 0.. {
        let number = round * WRITERS + writer;
        store.admit(admission(run(number))).await.expect("is admitted");
        tell(number, 1);
        for step in 0..10 {
            let piece = if step == 9 {
                ending(run(number))
            } else {
                append(run(number), 2)
            };
            match store.append(piece).await.expect("is appended") {
                Appended::Committed { last_seq, .. } => tell(number, last_seq.0),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn tell(run: u64, seq: u64) {
    // Past the capture of the test harness.
    writeln!(std::io::stdout().lock(), "committed {run} {seq}").expect("the parent listens");
}

/// Runs the child until it told of enough commits, kills it, and returns the last place of each run.
fn killed(directory: &Path) -> HashMap<u64, u64> {
    let mut child = Command::new(std::env::current_exe().expect("has a path"))
        .args(["kill::child", "--exact", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
    let mut told = HashMap::new();
    let mut count = 0;
    while let Some(Ok(line)) = lines.next() {
        // The harness writes its own lines, and may put one before ours.
        let Some((_, fact)) = line.split_once("committed ") else {
            continue;
        };
        let (run, seq) = fact.split_once(' ').expect("two numbers");
        told.insert(run.parse().expect("a number"), seq.parse().expect("a number"));
        count += 1;
        if count == ACKNOWLEDGED {
            child.kill().expect("is killed");
        }
    }
    child.wait().expect("ends");
    assert!(count >= ACKNOWLEDGED, "the child ended after {count} commits");
    told
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_kill() {
    let directory = tempfile::tempdir().expect("made");
    let told = killed(directory.path());

    let store = SqliteStore::open(directory.path()).expect("opens");
    let mut ended = 0;
    for (number, seq) in &told {
        let run = run(*number);
        let row = store.run(run).await.expect("is read").expect("is there");
        let journal = store.read(run, Seq::ZERO, 1_000).await.expect("is dense");
        assert!(
            row.last_seq.0 >= *seq,
            "run {number} lost what follows {}",
            row.last_seq.0
        );
        assert_eq!(
            journal.len() as u64,
            row.last_seq.0,
            "row and journal of run {number}"
        );
        if row.progress.status == RunStatus::Succeeded {
            ended += 1;
        }
    }
    store.close().await;

    let database = rusqlite::Connection::open(directory.path().join("portolan.db")).expect("opens");
    let text = |sql: &str| database.query_row(sql, [], |row| row.get::<_, String>(0));
    assert_eq!(text("PRAGMA integrity_check").as_deref(), Ok("ok"));
    let broken: bool = database
        .prepare("PRAGMA foreign_key_check")
        .and_then(|mut check| check.exists([]))
        .expect("runs");
    assert!(!broken, "a foreign key points nowhere");
    let used: i64 = database
        .query_row(
            "SELECT count(*) FROM usage AS u JOIN runs AS r USING (tenant_id, run_id) WHERE r.status = 3",
            [],
            |row| row.get(0),
        )
        .expect("counts");
    assert!(
        ended > 0 && used >= ended,
        "{used} usage rows of {ended} ended runs"
    );
}
