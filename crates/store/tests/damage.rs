//! What is stored and cannot be read is an error that says so.

use super::work::{admission, append, run};
use portolan_core::ids::Seq;
use portolan_journal::{JournalError, JournalStore, RunFilter};
use portolan_store::{SqliteStore, StoreOpenError, sqlite::MigrationError};

/// Writes a run, does the damage, and reads by all ways: events, row, list.
async fn read_after(damage: &str) -> [Option<JournalError>; 3] {
    let directory = tempfile::tempdir().expect("made");
    let store = SqliteStore::open(directory.path()).expect("opens");
    store.admit(admission(run(1))).await.expect("is admitted");
    store.append(append(run(1), 4)).await.expect("is appended");
    let database = rusqlite::Connection::open(directory.path().join("portolan.db")).expect("opens");
    database.execute_batch(damage).expect("is done");
    [
        store.read(run(1), Seq::ZERO, 100).await.err(),
        store.run(run(1)).await.err(),
        store.list(run(1).tenant, RunFilter::default(), 10).await.err(),
    ]
}

fn is_corrupt(error: &Option<JournalError>) -> bool {
    matches!(error, Some(JournalError::Corrupt(_)))
}

#[tokio::test]
async fn a_damaged_journal_is_corrupt() {
    for damage in [
        "DELETE FROM journal_events WHERE seq = 3",
        "UPDATE journal_events SET kind = 99 WHERE seq = 3",
        "UPDATE journal_events SET kind = x'00' WHERE seq = 3",
        "UPDATE journal_events SET step_id = 0 WHERE seq = 3",
        "UPDATE journal_events SET attempt = -1 WHERE seq = 3",
    ] {
        let [events, row, _] = read_after(damage).await;
        assert!(is_corrupt(&events), "{damage}: {events:?}");
        assert_eq!(row, None, "{damage}");
    }
}

#[tokio::test]
async fn a_damaged_row_is_corrupt() {
    for damage in [
        "UPDATE runs SET progress = '{'",
        "UPDATE runs SET status = 2",
        "UPDATE runs SET status = 17",
        "UPDATE runs SET agent = '/'",
        "UPDATE runs SET tags = 'a'",
        "UPDATE runs SET next_seq = 0",
        "UPDATE runs SET reserved = -1",
        "UPDATE runs SET owner = x'00'",
    ] {
        let [events, row, list] = read_after(damage).await;
        assert_eq!(events, None, "{damage}");
        assert!(
            is_corrupt(&row) && is_corrupt(&list),
            "{damage}: {row:?}, {list:?}"
        );
    }
}

#[tokio::test]
async fn a_foreign_file_is_refused() {
    let directory = tempfile::tempdir().expect("made");
    let path = directory.path().join("portolan.db");
    std::fs::write(&path, vec![b'x'; 8_192]).expect("is written");
    assert!(matches!(
        SqliteStore::open(directory.path()),
        Err(StoreOpenError::Database(_))
    ));

    std::fs::remove_file(&path).expect("is removed");
    let database = rusqlite::Connection::open(&path).expect("opens");
    database.execute_batch("CREATE TABLE t (a)").expect("is made");
    drop(database);
    let refused = SqliteStore::open(directory.path()).expect_err("is refused");
    assert!(
        matches!(refused, StoreOpenError::Schema(MigrationError::Foreign)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn the_journal_can_be_asked_in_sql() {
    let directory = tempfile::tempdir().expect("made");
    let store = SqliteStore::open(directory.path()).expect("opens");
    store.admit(admission(run(1))).await.expect("is admitted");
    let mut piece = append(run(1), 1);
    piece.events.push(super::work::event("run_teleported", b"{}"));
    store.append(piece).await.expect("is appended");
    let database = rusqlite::Connection::open(directory.path().join("portolan.db")).expect("opens");
    let mut statement = database
        .prepare("SELECT run_id || ' ' || seq || ' ' || kind || ' ' || step_id FROM journal ORDER BY seq")
        .expect("prepares");
    let rows: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .expect("reads");
    let id = run(1).run;
    let wanted = [
        "1 run_queued llm-1",
        "2 step_completed llm-1",
        "3 run_teleported llm-1",
    ];
    assert_eq!(rows, wanted.map(|row| format!("{id} {row}")));
}
