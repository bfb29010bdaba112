//! Readers that hop between two replicas on one database, with hints between them and without, while the database is stopped
//! and started: each sees the journal, each event once and in order, to its end.

use portolan_core::{
    Fut,
    ids::{Epoch, OwnerId, RunId, Seq, TenantId},
    money::NanoUsd,
    time::{Clock, Timestamp},
};
use portolan_journal::{
    Admission, Append, Appended, Claim, JournalStore, NewEvent, Progress, RunRef, RunStatus, Tail, TailItem,
    TailTimes,
};
use portolan_store::{PostgresStore, postgres::PostgresOptions};
use portolan_testkit::postgres::Cluster;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

const READERS: u64 = 12;
const EVENTS: u64 = 30;

/// Real time: a database has no other.
#[derive(Debug)]
struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

const RUN: RunRef = RunRef {
    tenant: TenantId::from_bytes([1; 16]),
    run: RunId::from_bytes([2; 16]),
};

fn event(kind: &str, number: u64) -> NewEvent {
    NewEvent {
        kind: kind.to_owned().into(),
        step: None,
        attempt: None,
        payload: format!("{{\"number\":{number}}}").into(),
    }
}

type Replicas = [Arc<PostgresStore>; 2];

async fn replicas(address: &str, hints: bool) -> Replicas {
    let options = || PostgresOptions {
        hints,
        ..PostgresOptions::default()
    };
    let first = PostgresStore::open(address, options()).await;
    let second = PostgresStore::open(address, options()).await;
    [first, second].map(|store| Arc::new(store.expect("the database opens")))
}

async fn begin(store: &PostgresStore) {
    let admission = Admission {
        run: RUN,
        agent: "writer".parse().expect("a name"),
        agent_version: 1,
        tags: Vec::new(),
        queued: event("run_queued", 1),
        reserve: NanoUsd::ZERO,
        idempotency: None,
        claim: Some(Claim {
            owner: OwnerId::from_bytes([1; 16]),
            lease_until: Timestamp::EPOCH.plus_ms(600_000),
        }),
        at: Timestamp::EPOCH,
    };
    store.admit(admission).await.expect("it is admitted");
}

/// Commits the event of a place, whatever happens to the database meanwhile.
async fn commit(store: &PostgresStore, seq: u64) {
    let (kind, status) = if seq == EVENTS {
        ("run_succeeded", RunStatus::Succeeded)
    } else {
        ("note", RunStatus::Running)
    };
    loop {
        let append = Append {
            run: RUN,
            epoch: Epoch(1),
            after: Some(Seq(seq - 1)),
            at: Timestamp::EPOCH,
            active_ms: 0,
            events: vec![event(kind, seq)],
            progress: Progress {
                status,
                ..Progress::default()
            },
            advances: true,
            settle: None,
            top_up: None,
            consumed: Vec::new(),
            release: None,
        };
        match store.append(append).await {
            Ok(Appended::Committed { last_seq, .. }) => {
                assert_eq!(last_seq, Seq(seq));
                return;
            }
            // The answer of the one before was lost; it landed.
            Ok(Appended::Elsewhere) => return,
            // A run that has ended has no owner: so did the terminal event.
            Ok(Appended::Fenced) if seq == EVENTS => return,
            Ok(other) => panic!("{other:?}"),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Reads to the end over many connections, each to the other replica, each of a few events.
async fn read_through(replicas: Replicas, number: u64, times: TailTimes) -> Vec<u64> {
    let clock: Arc<dyn Clock> = Arc::new(RealClock(Instant::now()));
    let mut seen = Vec::new();
    for connection in number.. {
        let store = Arc::clone(&replicas[usize::from(connection % 2 == 0)]);
        let after = Seq(seen.last().copied().unwrap_or_default());
        if after == Seq(EVENTS) {
            // The API answers that nothing comes after it.
            return seen;
        }
        let mut tail = Tail::new(store, Arc::clone(&clock), RUN, after, times);
        for _ in 0..=(connection * 7 + number) % 5 {
            match tail.next().await {
                TailItem::Event(event) => seen.push(event.seq.0),
                TailItem::HeartbeatDue => {}
                TailItem::Ended => return seen,
                TailItem::ComeAgain(_) => break,
            }
        }
    }
    seen
}

async fn hop(hints: bool, restart: bool) {
    let times = TailTimes {
        heartbeat_ms: 200,
        // With hints nobody gets on by looking: it takes longer than the test may.
        poll_ms: if hints && !restart { 600_000 } else { 20 },
    };
    let cluster = Cluster::start();
    let replicas = replicas(&cluster.database(), hints).await;
    begin(&replicas[0]).await;
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        readers.spawn(read_through(replicas.clone(), number, times));
    }
    for seq in 2..=EVENTS {
        // The writers take turns; both hold the epoch.
        commit(&replicas[usize::from(seq % 3 == 0)], seq).await;
        if restart && seq % 14 == 0 {
            tokio::task::block_in_place(|| {
                cluster.stop_immediately();
                cluster.resume();
            });
        }
    }
    let expected: Vec<u64> = (1..=EVENTS).collect();
    while let Some(seen) = readers.join_next().await {
        assert_eq!(seen.expect("no panic"), expected);
    }
    for store in &replicas {
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_at_any_replica_see_every_event_by_hints() {
    hop(true, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_at_any_replica_see_every_event_without_hints() {
    hop(false, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_every_event_of_a_database_that_is_stopped_and_started() {
    hop(true, true).await;
}
