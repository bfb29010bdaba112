//! Trouble: what happens to servers and to the database, one thing every few seconds, chosen by the seed.

use super::{
    ChaosError,
    disk::SmallDisk,
    fleet::{Database, Fleet, LEASE_MS},
    proxy::Proxy,
};
use crate::postgres::Cluster;
use crate::random::Random;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// SIGKILL to a server, which is started again.
    KillServer,
    /// SIGTERM to a server, which gives its runs back and is started again.
    DrainServer,
    /// SIGSTOP to a server for longer than its leases hold.
    PauseServer,
    /// The database stops at once and is started again: it recovers from its log.
    StopDatabase,
    /// Replies of the database are lost after it has committed.
    SwallowReplies,
    /// The disk of the database is full for a while.
    FillDisk,
}

/// How often each comes, of a hundred, where it can.
const CHANCES: [(Kind, u64); 6] = [
    (Kind::FillDisk, 10),
    (Kind::KillServer, 40),
    (Kind::SwallowReplies, 20),
    (Kind::StopDatabase, 12),
    (Kind::PauseServer, 10),
    (Kind::DrainServer, 8),
];

/// Whoever makes trouble.
pub(super) struct Trouble {
    pub(super) fleet: Arc<Fleet>,
    pub(super) random: Random,
    pub(super) cluster: Option<Cluster>,
    pub(super) proxy: Option<Proxy>,
    pub(super) disk: Option<SmallDisk>,
    pub(super) happened: BTreeMap<Kind, u64>,
    pub(super) is_talkative: bool,
}

impl Trouble {
    /// Makes trouble every two to five seconds for that long, then mends everything.
    pub(super) async fn make(&mut self, time: Duration) -> Result<(), ChaosError> {
        let began = Instant::now();
        while began.elapsed() < time {
            let rest = self.random.within(2_000..5_000);
            tokio::time::sleep(Duration::from_millis(rest)).await;
            let kind = self.choose();
            self.say(began, kind);
            self.fleet.storm_begins();
            let happened = self.happen(kind).await;
            self.fleet.storm_ends();
            happened?;
            *self.happened.entry(kind).or_default() += 1;
        }
        self.fleet.mend().await.map(drop)
    }

    fn choose(&self) -> Kind {
        loop {
            let mut draw = self.random.within(0..100);
            for (kind, chance) in CHANCES {
                if draw < chance && self.can(kind) {
                    return kind;
                }
                draw = draw.saturating_sub(chance);
            }
        }
    }

    fn can(&self, kind: Kind) -> bool {
        match kind {
            Kind::KillServer | Kind::DrainServer => true,
            // The owner of an embedded store cannot lose it.
            Kind::PauseServer => matches!(self.fleet.database(), Database::Postgres(_)),
            Kind::StopDatabase => self.cluster.is_some(),
            Kind::SwallowReplies => self.proxy.is_some(),
            Kind::FillDisk => self.disk.is_some(),
        }
    }

    async fn happen(&mut self, kind: Kind) -> Result<(), ChaosError> {
        let victim = self.random.index(self.fleet.len());
        match kind {
            Kind::KillServer => {
                self.fleet.kill(victim).await?;
                let down = self.random.within(0..1_500);
                tokio::time::sleep(Duration::from_millis(down)).await;
                self.fleet.start(victim).await
            }
            Kind::DrainServer => {
                self.fleet.drain(victim).await?;
                self.fleet.start(victim).await
            }
            Kind::PauseServer => {
                let longer = self.random.within(500..3_000);
                let time = Duration::from_millis(LEASE_MS + longer);
                self.fleet.pause(victim, time).await
            }
            Kind::StopDatabase => {
                let down = self.random.within(0..2_000);
                if let Some(cluster) = &self.cluster {
                    cluster.stop_immediately();
                    tokio::time::sleep(Duration::from_millis(down)).await;
                    cluster.resume();
                }
                self.fleet.mend().await.map(drop)
            }
            Kind::SwallowReplies => {
                if let Some(proxy) = &self.proxy {
                    proxy.swallow(self.random.within(1..6));
                    tokio::time::sleep(Duration::from_millis(700)).await;
                    proxy.let_pass();
                }
                self.fleet.mend().await.map(drop)
            }
            Kind::FillDisk => {
                if let Some(disk) = &self.disk {
                    disk.fill()?;
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    disk.free()?;
                }
                // A database whose log could not be written ends itself. That is its way to lose nothing.
                if let Some(cluster) = &self.cluster
                    && !cluster.answers()
                {
                    cluster.stop_immediately();
                    cluster.resume();
                }
                self.fleet.mend().await.map(drop)
            }
        }
    }

    #[expect(clippy::print_stderr, reason = "the program tells whoever watches it")]
    fn say(&self, began: Instant, kind: Kind) {
        if self.is_talkative {
            eprintln!("{:>7.1} s  {kind:?}", began.elapsed().as_secs_f64());
        }
    }
}
