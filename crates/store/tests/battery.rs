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

/// Takes every row out of a database and leaves its schema: half a second less than a new one, for each of the checks.
const EMPTY: &str = "SET session_replication_role = replica;
    DO $$ DECLARE one text; BEGIN
        FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'portolan_schema' LOOP
            EXECUTE format('DELETE FROM %I', one);
        END LOOP;
    END $$";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres() {
    let cluster = Cluster::start();
    let address = cluster.database();
    let last: Mutex<Option<Arc<PostgresStore>>> = Mutex::new(None);
    store_battery::check("the store on Postgres", async || {
        let earlier = last.lock().expect("no check panics here").take();
        if let Some(earlier) = earlier {
            earlier.close().await;
            cluster.sql(&address, EMPTY);
        }
        let store = PostgresStore::open(&address, PostgresOptions::default())
            .await
            .expect("an empty database opens");
        let store = Arc::new(store);
        *last.lock().expect("no check panics here") = Some(Arc::clone(&store));
        store as Arc<dyn JournalStore>
    })
    .await;
}
