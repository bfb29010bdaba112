//! Random numbers from a seed, shared by whoever has to choose.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// A generator: splitmix64. Clones share its state.
#[derive(Debug, Clone)]
pub struct Random(Arc<Mutex<u64>>);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number within a range that is not empty.
    pub fn within(&self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// One of so many.
    pub fn index(&self, len: usize) -> usize {
        usize::try_from(self.within(0..len as u64)).unwrap_or_default()
    }

    /// True in so many of a thousand cases.
    pub fn permille(&self, chance: u64) -> bool {
        self.within(0..1_000) < chance
    }

    /// True in so many of a hundred cases.
    pub fn percent(&self, chance: u64) -> bool {
        self.within(0..100) < chance
    }
}
