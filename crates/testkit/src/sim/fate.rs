//! Fate: when processes die, stop and leave, and when the database does.

use super::{executor::WORLD, process::Processes, swarm::Swarm};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Makes things happen until it is told that it is enough.
#[derive(Debug, Clone)]
pub(super) struct Fate {
    processes: Arc<Processes>,
    is_over: Arc<AtomicBool>,
}

impl Fate {
    pub(super) fn begin(swarm: &Swarm, processes: &Arc<Processes>) -> Self {
        let fate = Self {
            processes: Arc::clone(processes),
            is_over: Arc::default(),
        };
        fate.every(swarm.kill_every_ms, |fate| async move { fate.kill().await });
        fate.every(swarm.pause_every_ms, |fate| async move { fate.pause().await });
        fate.every(swarm.drain_every_ms, |fate| async move { fate.drain().await });
        fate.every(swarm.crash_every_ms, |fate| async move { fate.crash().await });
        fate.every(swarm.refuse_every_ms, |fate| async move { fate.refuse().await });
        fate
    }

    /// Stops, and puts everything right that is still wrong.
    pub(super) fn heal(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.processes.database.heal();
        self.processes.provider.heal();
        for number in 0..self.processes.len() {
            match self.processes.life(number) {
                Some(life) => {
                    self.processes.executor.resume(life.group);
                    if life.host.is_draining() {
                        self.processes.kill(number);
                        self.processes.start(number);
                    }
                }
                None => self.processes.start(number),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn every<F: Future<Output = ()> + Send + 'static>(
        &self,
        mean_ms: u64,
        happen: impl Fn(Self) -> F + Send + Sync + 'static,
    ) {
        if mean_ms == 0 {
            return;
        }
        let fate = self.clone();
        let task = async move {
            loop {
                let rest = fate.processes.random.within(0..mean_ms * 2);
                fate.processes.time.sleep_ms(rest).await;
                if fate.is_over() {
                    return;
                }
                happen(fate.clone()).await;
            }
        };
        self.processes.executor.spawn(WORLD, Box::pin(task));
    }

    async fn kill(self) {
        let processes = &self.processes;
        let victim = processes.random.index(processes.len());
        processes.kill(victim);
        processes.history.count(|counts| counts.kills += 1);
        let down = processes.random.within(0..3_000);
        processes.time.sleep_ms(down).await;
        if !self.is_over() && processes.life(victim).is_none() {
            processes.start(victim);
        }
    }

    /// SIGSTOP, at times for longer than a lease holds.
    async fn pause(self) {
        let processes = &self.processes;
        let Some(life) = processes.life(processes.random.index(processes.len())) else {
            return;
        };
        processes.history.note(format_args!("{} is paused", life.group));
        processes.history.count(|counts| counts.pauses += 1);
        processes.executor.pause(life.group);
        let time = processes.random.within(500..40_000);
        processes.time.sleep_ms(time).await;
        processes.executor.resume(life.group);
    }

    async fn drain(self) {
        let processes = &self.processes;
        let number = processes.random.index(processes.len());
        let Some(life) = processes.life(number) else {
            return;
        };
        processes.history.note(format_args!("{} drains", life.group));
        processes.history.count(|counts| counts.pauses += 1);
        let host = Arc::clone(&life.host);
        let draining = async move { host.drain(2_000).await };
        processes.executor.spawn(life.group, Box::pin(draining));
        processes.time.sleep_ms(8_000).await;
        let is_still_the_same = processes.life(number).is_some_and(|now| now.group == life.group);
        if !self.is_over() && is_still_the_same {
            processes.kill(number);
            processes.start(number);
        }
    }

    async fn crash(self) {
        let processes = &self.processes;
        processes.history.count(|counts| counts.crashes += 1);
        let away = processes.random.within(0..6_000);
        processes.database.crash(away).await;
    }

    async fn refuse(self) {
        let processes = &self.processes;
        processes.history.count(|counts| counts.crashes += 1);
        let time = processes.random.within(100..8_000);
        processes.database.refuse(time).await;
    }
}
