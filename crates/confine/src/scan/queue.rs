use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Work that may bring more work. It is over when nothing waits and nothing is being worked on.
///
/// The last that came goes first: a directory's files are done before the next directory is opened, which bounds how
/// many directories are open at once.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// Marks an item as being worked on. A worker that panics gives it back too, or the others would wait for ever.
#[derive(Debug)]
pub(super) struct InWork<'a, T>(&'a Queue<T>);

impl<T> Drop for InWork<'_, T> {
    fn drop(&mut self) {
        self.0.done();
    }
}

#[derive(Debug)]
struct State<T> {
    waiting: Vec<T>,
    in_work: usize,
}

impl<T> Queue<T> {
    pub(super) const fn empty() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Vec::new(),
                in_work: 0,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn new(first: T) -> Self {
        let queue = Self::empty();
        queue.add([first]);
        queue
    }

    pub(super) fn add(&self, items: impl IntoIterator<Item = T>) {
        let mut state = self.state();
        state.waiting.extend(items);
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn len(&self) -> usize {
        self.state().waiting.len()
    }

    /// Takes work, waiting for it while others may still bring some. The item counts as in work until the guard goes.
    pub(super) fn take(&self) -> Option<(T, InWork<'_, T>)> {
        let mut state = self.state();
        loop {
            if let Some(item) = state.waiting.pop() {
                state.in_work += 1;
                return Some((item, InWork(self)));
            }
            if state.in_work == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self) {
        let mut state = self.state();
        state.in_work = state.in_work.saturating_sub(1);
        let over = state.in_work == 0 && state.waiting.is_empty();
        drop(state);
        if over {
            self.changed.notify_all();
        }
    }

    /// Drops whatever waits.
    pub(super) fn clear(&self) {
        self.state().waiting.clear();
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
