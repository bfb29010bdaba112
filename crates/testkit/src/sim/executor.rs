//! The executor: one thread, tasks in groups that can be paused and killed, and a seed that picks who goes on.

use super::time::Time;
use crate::random::Random;
use portolan_core::Fut;
use portolan_engine::Spawner;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

/// A process, or the world around the processes.
pub(super) type Group = u64;

/// The group of everything that outlives processes: database, providers, users.
pub(super) const WORLD: Group = 0;

type Task = Fut<'static, ()>;

/// Where tasks run.
#[derive(Debug, Clone, Default)]
pub(super) struct Executor(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    tasks: BTreeMap<u64, (Group, Option<Task>, Waker)>,
    ready: Vec<u64>,
    paused: BTreeSet<Group>,
    next: u64,
    woken: Woken,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("tasks", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

/// Tasks that were woken and not yet looked at.
type Woken = Arc<Mutex<Vec<u64>>>;

struct TaskWaker {
    task: u64,
    woken: Woken,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.task);
    }
}

/// How a run of the executor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// What was waited for is there.
    Done,
    /// Time is up.
    OutOfTime,
    /// Nothing can go on, and nobody waits for a moment.
    Stuck,
}

impl Executor {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spawn(&self, group: Group, task: Task) {
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        let waker = Waker::from(Arc::new(TaskWaker {
            task: id,
            woken: Arc::clone(&state.woken),
        }));
        state.tasks.insert(id, (group, Some(task), waker));
        state.ready.push(id);
    }

    /// A spawner for one process.
    pub(super) fn spawner(&self, group: Group) -> Arc<dyn Spawner> {
        Arc::new(GroupSpawner {
            executor: self.clone(),
            group,
        })
    }

    /// Ends a process: none of its tasks goes on, whatever it was about to do.
    pub(super) fn kill(&self, group: Group) {
        let mut state = self.state();
        let (dead, alive) = std::mem::take(&mut state.tasks)
            .into_iter()
            .partition(|(_, (of, _, _))| *of == group);
        state.tasks = alive;
        state.paused.remove(&group);
        drop(state);
        // What they held is dropped here, outside of the lock.
        let dead: BTreeMap<u64, (Group, Option<Task>, Waker)> = dead;
        drop(dead);
    }

    /// Stops a process where it is.
    pub(super) fn pause(&self, group: Group) {
        self.state().paused.insert(group);
    }

    /// Lets it go on.
    pub(super) fn resume(&self, group: Group) {
        self.state().paused.remove(&group);
    }

    /// Runs until `done`, until a moment, or until nothing can go on.
    pub(super) fn run(&self, time: &Time, random: &Random, until_us: u64, done: impl Fn() -> bool) -> Ran {
        loop {
            if done() {
                return Ran::Done;
            }
            match self.pick(random) {
                Some((id, task, waker)) => self.poll(id, task, &waker),
                None => {
                    if time.now_us() >= until_us {
                        return Ran::OutOfTime;
                    }
                    if !time.go_on() {
                        return Ran::Stuck;
                    }
                }
            }
        }
    }

    fn pick(&self, random: &Random) -> Option<(u64, Task, Waker)> {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut woken = std::mem::take(&mut *state.woken.lock().unwrap_or_else(PoisonError::into_inner));
        // Who is woken first by one announcement is the library's choice, and not always the same.
        woken.sort_unstable();
        for id in woken {
            if !state.ready.contains(&id) {
                state.ready.push(id);
            }
        }
        state.ready.retain(|id| state.tasks.contains_key(id));
        let able: Vec<usize> = state
            .ready
            .iter()
            .enumerate()
            .filter(|(_, id)| {
                let group = state.tasks.get(id).map(|(group, ..)| group);
                group.is_some_and(|group| !state.paused.contains(group))
            })
            .map(|(place, _)| place)
            .collect();
        let place = *able.get(random.index(able.len().max(1)))?;
        let id = state.ready.swap_remove(place);
        let (_, task, waker) = state.tasks.get_mut(&id)?;
        Some((id, task.take()?, waker.clone()))
    }

    fn poll(&self, id: u64, mut task: Task, waker: &Waker) {
        let polled = task.as_mut().poll(&mut Context::from_waker(waker));
        let mut state = self.state();
        match polled {
            Poll::Pending => {
                // It may have been killed by what it did itself.
                if let Some((_, place, _)) = state.tasks.get_mut(&id) {
                    *place = Some(task);
                    return;
                }
            }
            Poll::Ready(()) => {
                state.tasks.remove(&id);
            }
        }
        drop(state);
        drop(task);
    }
}

#[derive(Debug)]
struct GroupSpawner {
    executor: Executor,
    group: Group,
}

impl Spawner for GroupSpawner {
    fn spawn(&self, task: Task) {
        self.executor.spawn(self.group, task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_group_does_nothing_more_and_a_paused_one_goes_on_later() {
        let (executor, time, random) = (Executor::default(), Time::default(), Random::new(1));
        let log: Arc<Mutex<Vec<(Group, u64)>>> = Arc::default();
        for group in 1..=3 {
            let (time, log) = (time.clone(), Arc::clone(&log));
            executor.spawn(
                group,
                Box::pin(async move {
                    for _ in 0..3 {
                        time.sleep_ms(10).await;
                        log.lock()
                            .expect("one thread")
                            .push((group, time.now_us() / 1_000));
                    }
                }),
            );
        }
        let (killer, clock) = (executor.clone(), time.clone());
        executor.spawn(
            WORLD,
            Box::pin(async move {
                clock.sleep_ms(15).await;
                killer.kill(1);
                killer.pause(2);
                clock.sleep_ms(50).await;
                killer.resume(2);
            }),
        );
        assert_eq!(executor.run(&time, &random, u64::MAX, || false), Ran::Stuck);
        let mut log = log.lock().expect("one thread").clone();
        log.sort_unstable();
        assert_eq!(
            log,
            [(1, 10), (2, 10), (2, 65), (2, 75), (3, 10), (3, 20), (3, 30)]
        );
    }
}
