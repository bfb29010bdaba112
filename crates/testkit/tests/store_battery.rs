//! The store in memory passes the battery that all stores pass.

use portolan_journal::{JournalStore, memory::MemoryJournal};
use portolan_testkit::store_battery;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory() {
    store_battery::check("the store in memory", async || {
        Arc::new(MemoryJournal::new()) as Arc<dyn JournalStore>
    })
    .await;
}
