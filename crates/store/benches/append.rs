//! How many appends a second the store makes durable, beside what plain one-by-one commits reach in the same folder.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and starts tasks"
)]

use portolan_core::{
    ids::{Attempt, Epoch, OwnerId, RunId, StepId, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{
    Admission, Append, Appended, Claim, JournalStore, NewEvent, Progress, RunRef, RunStatus,
};
use portolan_store::{PostgresStore, SqliteStore, postgres::PostgresOptions};
use portolan_testkit::postgres::Cluster;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const TIME: Duration = Duration::from_secs(4);
const KILOBYTE: usize = 1_024;

/// Steps of a run.
const STEPS: u32 = 10;

fn main() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory can be made");
    println!("durable commits in {}", directory.path().display());
    probe(&directory.path().join("probe.db"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    for concurrency in [1, 16, 64, 256] {
        let store = SqliteStore::open(&directory.path().join(format!("c{concurrency}"))).expect("opens");
        let store = Arc::new(store);
        runtime.block_on(async {
            appends("SQLite", store.clone(), concurrency).await;
            store.close().await;
        });
    }
    runtime.block_on(postgres());
    runtime.block_on(disk(&directory.path().join("disk")));
    probe(&directory.path().join("probe-again.db"));
}

/// The same on a Postgres of its own, which lies in the temporary folder of the system.
async fn postgres() {
    if !portolan_testkit::postgres::is_installed() {
        println!("no Postgres is installed");
        return;
    }
    let cluster = Cluster::start();
    for concurrency in [1, 16, 64, 256] {
        let store = PostgresStore::open(&cluster.database(), PostgresOptions::default()).await;
        let store = Arc::new(store.expect("opens"));
        appends("Postgres", store.clone(), concurrency).await;
        store.close().await;
    }
}

/// Rows of a kilobyte, a fully durable commit each.
fn probe(path: &Path) {
    let connection = rusqlite::Connection::open(path).expect("opens");
    connection
        .execute_batch(
            "PRAGMA journal_mode = wal; PRAGMA synchronous = FULL; CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL);",
        )
        .expect("is set up");
    let mut insert = connection
        .prepare("INSERT INTO rows (body) VALUES (?1)")
        .expect("prepares");
    let body = payload(KILOBYTE);
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < TIME {
        let sent = Instant::now();
        insert.execute([&body]).expect("commits");
        times.push(sent.elapsed());
    }
    report("probe: 1 row of 1 KB per commit", times, began.elapsed());
}

/// Appends of two events of a kilobyte, from that many runs at once, each of ten steps like a run of an agent.
async fn appends(name: &str, store: Arc<dyn JournalStore>, concurrency: u64) {
    let runs = Arc::new(admit_all(&store).await);
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let tasks: Vec<_> = (0..concurrency)
        .map(|_| {
            let (store, runs, next) = (Arc::clone(&store), Arc::clone(&runs), Arc::clone(&next));
            tokio::spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < TIME {
                    let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    for step in 1..=STEPS {
                        let sent = Instant::now();
                        append(&*store, *run, step, KILOBYTE).await;
                        times.push(sent.elapsed());
                    }
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("the task ends"));
    }
    let what = format!("store on {name}: {concurrency} runs at once, appends of 2 x 1 KB");
    report(&what, times, began.elapsed());
}

/// Enough runs for the time.
async fn admit_all(store: &Arc<dyn JournalStore>) -> Vec<RunRef> {
    let began = Instant::now();
    let tasks: Vec<_> = (0..256_u64)
        .map(|worker| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut runs = Vec::new();
                for number in 0..96 {
                    runs.push(begin(&*store, number * 256 + worker).await);
                }
                runs
            })
        })
        .collect();
    let mut runs = Vec::new();
    for task in tasks {
        runs.extend(task.await.expect("the task ends"));
    }
    runs.sort_unstable();
    let rate = rate(runs.len(), began.elapsed());
    println!("store: 256 admissions at once: {rate:.0}/s");
    runs
}

/// Bytes on the disk for a step: its intent of some 200 bytes and its answer of a kilobyte, 64 runs interleaved.
async fn disk(directory: &Path) {
    const RUNS: u64 = 64;
    let store = SqliteStore::open(directory).expect("opens");
    let mut runs = Vec::new();
    for number in 0..RUNS {
        runs.push(begin(&store, number).await);
    }
    for step in 1..=STEPS * 15 {
        let writes = runs.iter().map(|run| {
            append(
                &store,
                *run,
                step,
                140 + (run.run.as_bytes()[7] as usize * 37 + step as usize * 11) % 120,
            )
        });
        for write in writes {
            write.await;
        }
    }
    store.close().await;
    let bytes = std::fs::metadata(directory.join("portolan.db"))
        .expect("is there")
        .len();
    println!("disk: {} bytes per step", bytes / (RUNS * u64::from(STEPS * 15)));
}

async fn begin(store: &dyn JournalStore, number: u64) -> RunRef {
    let mut id = [0x5a; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    let run = RunRef {
        tenant: TenantId::from_bytes([1; 16]),
        run: RunId::from_bytes(id),
    };
    let admission = Admission {
        run,
        agent: "bench".parse().expect("is a name"),
        agent_version: 1,
        tags: Vec::new(),
        queued: event("run_queued", None, 100),
        reserve: NanoUsd::ZERO,
        idempotency: None,
        claim: Some(Claim {
            owner: OwnerId::from_bytes([2; 16]),
            lease_until: Timestamp(1_800_000_000_000_000),
        }),
        at: Timestamp(1_700_000_000_000_000),
    };
    store.admit(admission).await.expect("is admitted");
    run
}

async fn append(store: &dyn JournalStore, run: RunRef, step: u32, intent: usize) {
    let append = Append {
        run,
        epoch: Epoch(1),
        after: None,
        at: Timestamp(1_700_000_000_000_000),
        active_ms: u64::from(step),
        events: vec![
            event("step_completed", Some(StepId::llm(step)), KILOBYTE),
            event("step_started", Some(StepId::llm(step)), intent),
        ],
        progress: Progress {
            status: RunStatus::Running,
            model: Some("provider/model".into()),
            started_at: Some(Timestamp(1_700_000_000_000_000)),
            ..Progress::default()
        },
        advances: true,
        settle: None,
        top_up: None,
        consumed: Vec::new(),
        release: None,
    };
    let appended = store.append(append).await.expect("commits");
    assert!(matches!(appended, Appended::Committed { .. }), "{appended:?}");
}

fn event(kind: &str, step: Option<StepId>, bytes: usize) -> NewEvent {
    NewEvent {
        kind: kind.to_owned().into(),
        step,
        attempt: step.map(|_| Attempt::FIRST),
        payload: payload(bytes).into(),
    }
}

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|place| b"0123456789abcdef"[place * 7 % 16])
        .collect()
}

fn report(what: &str, mut times: Vec<Duration>, took: Duration) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    let rate = rate(times.len(), took);
    println!("{what}: {rate:.0}/s, p50 {:?}, p99 {:?}", at(50), at(99));
}

#[expect(clippy::cast_precision_loss, reason = "a rate is rounded anyway")]
fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
