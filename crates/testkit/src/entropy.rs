//! Randomness that is the same at each run of a test.

use portolan_core::entropy::Entropy;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter, spread by an integer hash: distinct and reproducible, and no more than that.
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// The sequence of that seed.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next number.
    pub fn next_u64(&self) -> u64 {
        // SplitMix64: one addition and a finaliser, with a full period.
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let mut z = self.0.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
