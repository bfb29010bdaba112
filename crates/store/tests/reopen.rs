//! What one process leaves to the next: everything, and the directory.

use super::work::{NOW, admission, append, ending, run};
use portolan_core::{digest::Digest, ids::Seq, money::NanoUsd};
use portolan_journal::{
    Admission, Admitted, Command, IdempotencyClaim, JournalError, JournalStore, RunFilter, ScopeKey,
};
use portolan_store::{
    SqliteStore, StoreOpenError,
    sqlite::{DirectoryError, Migrator},
};
use std::{os::unix::fs::PermissionsExt, path::Path};

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory).expect("the directory opens")
}

async fn fill(store: &SqliteStore) {
    let tenant = run(1).tenant;
    let limit = Some(NanoUsd(100));
    store
        .set_scope_limit(tenant, ScopeKey::Tenant, limit)
        .await
        .expect("is set");
    let keyed = Admission {
        idempotency: Some(IdempotencyClaim {
            key: "k".to_owned(),
            fingerprint: Digest::of(b"body"),
            expires_at: NOW.plus_ms(1_000),
        }),
        ..admission(run(1))
    };
    store.admit(keyed).await.expect("is admitted");
    store.append(append(run(1), 3)).await.expect("is appended");
    store
        .command(run(1), Command::Cancel, NOW)
        .await
        .expect("is accepted");
    store.admit(admission(run(2))).await.expect("is admitted");
    store.append(ending(run(2))).await.expect("is appended");
}

/// All that can be read, in words.
async fn content(store: &SqliteStore) -> String {
    let mut content = Vec::new();
    for number in [1, 2] {
        content.push(format!("{:?}", store.run(run(number)).await));
        content.push(format!("{:?}", store.read(run(number), Seq::ZERO, 100).await));
        content.push(format!("{:?}", store.inbox(run(number)).await));
    }
    let tenant = run(1).tenant;
    content.push(format!(
        "{:?}",
        store.list(tenant, RunFilter::default(), 10).await
    ));
    content.push(format!("{:?}", store.scope_books(tenant, ScopeKey::Tenant).await));
    content.join("\n")
}

#[tokio::test]
async fn all_content_survives_a_drop_and_a_close() {
    let directory = tempfile::tempdir().expect("made");
    let store = open(directory.path());
    fill(&store).await;
    let before = content(&store).await;
    assert!(before.contains("reserved: $0.000000005"), "{before}");
    drop(store);

    let store = open(directory.path());
    assert_eq!(content(&store).await, before);
    store.close().await;
    let log = std::fs::metadata(directory.path().join("portolan.db-wal"));
    assert!(
        log.map_or(true, |log| log.len() == 0),
        "a closed store leaves a log behind"
    );

    let store = open(directory.path());
    assert_eq!(content(&store).await, before);
    let mut again = admission(run(3));
    again.idempotency = Some(IdempotencyClaim {
        key: "k".to_owned(),
        fingerprint: Digest::of(b"body"),
        expires_at: NOW.plus_ms(1_000),
    });
    assert_eq!(store.admit(again).await, Ok(Admitted::Replayed(run(1).run)));
    let mut dear = admission(run(4));
    dear.reserve = NanoUsd(96);
    let scope = ScopeKey::Tenant;
    assert_eq!(store.admit(dear).await, Ok(Admitted::OverBudget { scope }));
}

#[tokio::test]
async fn a_closed_store_answers_with_an_error() {
    let directory = tempfile::tempdir().expect("made");
    let store = open(directory.path());
    store.close().await;
    store.close().await;
    let closed = JournalError::NotCommitted("the store is closed".to_owned());
    assert_eq!(store.admit(admission(run(1))).await, Err(closed.clone()));
    assert_eq!(store.run(run(1)).await, Err(closed));
}

#[tokio::test]
async fn what_was_accepted_is_committed_before_the_close_ends() {
    let directory = tempfile::tempdir().expect("made");
    let store = std::sync::Arc::new(open(directory.path()));
    let waiting: Vec<_> = (0..200)
        .map(|number| {
            let store = std::sync::Arc::clone(&store);
            tokio::spawn(async move { store.admit(admission(run(number))).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await;
    let mut admitted = 0;
    for task in waiting {
        match task.await.expect("ends") {
            Ok(Admitted::Created { .. }) => admitted += 1,
            Ok(other) => panic!("{other:?}"),
            Err(JournalError::NotCommitted(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let store = open(directory.path());
    let filter = RunFilter::default();
    let rows = store.list(run(0).tenant, filter, 1_000).await.expect("lists");
    assert_eq!(rows.len(), admitted);
}

#[test]
fn a_directory_has_one_owner_and_is_private() {
    let parent = tempfile::tempdir().expect("made");
    let directory = parent.path().join("a/b");
    let store = open(&directory);
    let mode = std::fs::metadata(&directory)
        .expect("is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    let second = SqliteStore::open(&directory).expect_err("is refused");
    assert!(
        matches!(&second, StoreOpenError::Directory(DirectoryError::InUse { directory: which }) if *which == directory),
        "{second:?}"
    );
    drop(store);
    open(&directory);
}

#[test]
fn a_migration_that_was_cut_between_two_steps_is_completed() {
    let schema = |directory: &Path| -> Vec<String> {
        drop(open(directory));
        let database = rusqlite::Connection::open(directory.join("portolan.db")).expect("opens");
        let mut statement = database
            .prepare("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY 1")
            .expect("prepares");
        let lines = statement.query_map([], |row| row.get(0)).expect("lists");
        lines.collect::<Result<_, _>>().expect("lists")
    };
    let fresh = tempfile::tempdir().expect("made");
    let wanted = schema(fresh.path());
    assert!(wanted.len() > 10, "{wanted:?}");
    let all = {
        let nothing = tempfile::tempdir().expect("made");
        let all = Migrator::look(nothing.path()).expect("looks");
        assert!(
            !nothing.path().join("portolan.db").exists(),
            "a look makes nothing"
        );
        all.len()
    };
    for steps in 0..=all {
        let cut = tempfile::tempdir().expect("made");
        let mut migrator = Migrator::open(cut.path()).expect("opens");
        for _ in 0..steps {
            migrator.apply_next().expect("applies").expect("there is one");
        }
        drop(migrator);
        assert_eq!(Migrator::look(cut.path()).expect("looks").len(), all - steps);
        assert_eq!(schema(cut.path()), wanted, "cut after {steps} steps");
    }
}
