//! The store in memory passes the battery that all stores pass, and so does one that has only the methods that every store must.

use portolan_journal::{JournalStore, memory::MemoryJournal};
use portolan_testkit::{
    kill::{KillSwitch, KillingJournal},
    store_battery,
};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory() {
    store_battery::check("the store in memory", async || {
        Arc::new(MemoryJournal::new()) as Arc<dyn JournalStore>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_store_need_not_write_itself() {
    store_battery::check("the store in memory behind another", async || {
        let inner = Arc::new(MemoryJournal::new());
        Arc::new(KillingJournal::new(inner, KillSwitch::at(0))) as Arc<dyn JournalStore>
    })
    .await;
}
