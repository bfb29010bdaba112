//! What an owner knows about its own lease, by its own monotonic clock.
//!
//! A process may stop for longer than its lease holds and go on as if nothing had happened. The store refuses what it writes
//! then, but a provider and a tool would not know. So the owner looks at its own lease before anything leaves it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The lease of one run under one owner. Clones share it.
#[derive(Debug, Clone)]
pub struct Lease {
    /// On the monotonic clock, in microseconds.
    until_us: Arc<AtomicU64>,
}

impl Lease {
    /// A lease that holds until a moment of the monotonic clock.
    pub fn until(until_us: u64) -> Self {
        Self {
            until_us: Arc::new(AtomicU64::new(until_us)),
        }
    }

    /// A lease that nobody can end: of an embedded store, which has one owner.
    pub fn forever() -> Self {
        Self::until(u64::MAX)
    }

    /// Takes note of a renewal. It never shortens the lease.
    pub fn extend_to(&self, until_us: u64) {
        self.until_us.fetch_max(until_us, Ordering::Relaxed);
    }

    /// Whether somebody else may own the run by now.
    pub fn is_over(&self, now_us: u64) -> bool {
        now_us >= self.until_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_at_its_moment_and_a_renewal_puts_that_off() {
        let lease = Lease::until(10);
        assert!(!lease.is_over(9));
        assert!(lease.is_over(10));
        lease.extend_to(20);
        lease.extend_to(15);
        assert!(!lease.is_over(19));
        assert!(!Lease::forever().is_over(u64::MAX - 1));
    }
}
