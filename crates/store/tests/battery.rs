//! The stores pass the battery that all stores pass.

use portolan_journal::JournalStore;
use portolan_store::{PostgresStore, SqliteStore, postgres::PostgresOptions};
use portolan_testkit::{postgres::Cluster, store_battery};
use std::sync::{Arc, Mutex};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite() {
    let directories = Mutex::new(Vec::new());
    store_battery::check("the store on SQLite", async || {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let store = SqliteStore::open(directory.path()).expect("an empty directory opens");
        directories.lock().expect("no check panics here").push(directory);
        Arc::new(store) as Arc<dyn JournalStore>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres() {
    let cluster = Cluster::start();
    store_battery::check("the store on Postgres", async || {
        let store = PostgresStore::open(&cluster.database(), PostgresOptions::default())
            .await
            .expect("an empty database opens");
        Arc::new(store) as Arc<dyn JournalStore>
    })
    .await;
}
