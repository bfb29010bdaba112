//! The switches of the planted bugs: one set for the process, one for each thread.

use super::Plant;
use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

static PROCESS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

const _: () = assert!(Plant::ALL.len() <= 64, "the switches are the bits of one word");

const fn bit(plant: Plant) -> u64 {
    1 << (plant as u8)
}

/// Whether a bug is planted on this thread or in this process.
pub fn planted(plant: Plant) -> bool {
    (PROCESS.load(Ordering::Relaxed) | THREAD.get()) & bit(plant) != 0
}

/// Plants a bug on this thread for as long as the guard lives.
#[must_use = "the bug is gone with the guard"]
pub fn plant(plant: Plant) -> Planted {
    let before = THREAD.get();
    THREAD.set(before | bit(plant));
    Planted { before }
}

/// Plants a bug in the whole process, for good.
pub fn plant_in_process(plant: Plant) {
    PROCESS.fetch_or(bit(plant), Ordering::Relaxed);
}

/// A planted bug.
#[derive(Debug)]
pub struct Planted {
    before: u64,
}

impl Drop for Planted {
    fn drop(&mut self) {
        THREAD.set(self.before);
    }
}
