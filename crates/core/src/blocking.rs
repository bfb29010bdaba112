//! Marks threads that wait for a future without an async runtime, so that a network adapter can tell a mistake from a use.
//!
//! The blocking driver of the loop polls on the calling thread. Called inside of an async runtime it would hold the very
//! thread that has to move the adapter's connections, and wait for ever. An adapter that finds both, a waiting thread and a
//! runtime around it, refuses with an error that says so.

use std::cell::Cell;

thread_local! {
    static WAITING: Cell<u32> = const { Cell::new(0) };
}

/// Marks this thread until it is dropped. It does not leave the thread.
#[derive(Debug)]
pub struct Waiting(std::marker::PhantomData<*const ()>);

impl Waiting {
    /// Marks this thread.
    pub fn here() -> Self {
        WAITING.set(WAITING.get() + 1);
        Self(std::marker::PhantomData)
    }

    /// Whether this thread is marked.
    pub fn is_here() -> bool {
        WAITING.get() > 0
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.set(WAITING.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_nest_and_end() {
        assert!(!Waiting::is_here());
        let outer = Waiting::here();
        drop(Waiting::here());
        assert!(Waiting::is_here());
        drop(outer);
        assert!(!Waiting::is_here());
    }
}
