//! That the table is whole, and that the battery finds what it says.

use super::{Standing, TABLE, UNPLACED};
use crate::{sim::NOT_SIMULATED, store_battery};
use futures::FutureExt as _;
use portolan_core::{
    faults::{Plant, plant},
    money::NanoUsd,
    price::Price,
    usage::TokenUsage,
};
use portolan_journal::{JournalStore, memory::MemoryJournal};
use std::{panic::AssertUnwindSafe, sync::Arc};

#[test]
fn each_promise_and_each_bug_stands_in_the_table_once() {
    let promises: Vec<u8> = TABLE.iter().map(|(promise, _)| *promise).collect();
    assert_eq!(promises, (1..=33).collect::<Vec<_>>());
    let mut bugs = UNPLACED.to_vec();
    for (promise, standing) in TABLE {
        let (bug, is_simulated) = match standing {
            Standing::Simulator(bug) => (bug, true),
            Standing::Battery(bug, _) | Standing::Test(bug, _) => (bug, false),
            Standing::Missing(_) | Standing::NotYet(_) => continue,
        };
        assert_eq!(bug.promise(), *promise, "{}", bug.name());
        let elsewhere = NOT_SIMULATED.iter().any(|(plant, _)| plant == bug);
        assert_eq!(elsewhere, !is_simulated, "{}", bug.name());
        bugs.push(*bug);
    }
    bugs.sort_unstable();
    let mut all = Plant::ALL.to_vec();
    all.sort_unstable();
    assert_eq!(bugs, all);
}

#[tokio::test]
async fn the_battery_finds_each_bug_that_it_is_named_for() {
    for (_, standing) in TABLE {
        let Standing::Battery(bug, check) = standing else {
            continue;
        };
        let _planted = plant(*bug);
        let battery = store_battery::check("a store with a bug", async || {
            Arc::new(MemoryJournal::new()) as Arc<dyn JournalStore>
        });
        let panic = AssertUnwindSafe(battery)
            .catch_unwind()
            .await
            .expect_err("the bug survived");
        let said = panic.downcast_ref::<String>().expect("a message");
        assert!(said.contains(check), "{}: {said}", bug.name());
    }
}

#[test]
fn a_planted_cost_that_wraps_is_noticed() {
    let price = Price {
        input_usd_per_million: NanoUsd(400_000_000),
        output_usd_per_million: NanoUsd(1_600_000_000),
        cached_input_usd_per_million: None,
        max_output_tokens: None,
    };
    let endless = TokenUsage {
        tokens_in: u64::MAX,
        ..TokenUsage::default()
    };
    assert_eq!(price.cost(&endless), None);
    let _planted = plant(Plant::CostWraps);
    assert!(price.cost(&endless).is_some());
}
