//! Thousands of silent readers of event streams, and thousands that come back at once after the server was killed.
//!
//! `--count N` readers (10,000 if it is not said) of `--runs R` runs (a hundred). Without `--storm`: what a silent reader costs
//! in memory and processor time, and that each is told every event once. With it: the server dies of SIGKILL and starts again,
//! and all readers resume within thirty seconds. The server is `portolan serve`, a process of its own, and so is this client.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program that measures and prints"
)]

#[path = "../tests/it/crowd.rs"]
mod crowd;
#[path = "../tests/it/random.rs"]
mod random;
#[expect(dead_code, reason = "the tests use the rest")]
#[path = "../tests/it/support.rs"]
mod support;

use crowd::{Address, End, Reader, Witness, raise_descriptor_limit};
use portolan_cli as _;
use random::Random;
use std::{sync::Arc, time::Duration};
use support::{Daemon, Stage};
use tokio::{sync::watch, task::JoinSet};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Descriptors that are needed for something else than readers.
const SPARE: u64 = 500;
/// Two heartbeats and a little.
const IDLE: Duration = Duration::from_secs(35);
const STORM_MS: u64 = 30_000;

/// What was asked for.
struct Wanted {
    count: u64,
    runs: u64,
    storm: bool,
}

impl Wanted {
    fn read() -> Result<Self, Failure> {
        let mut wanted = Self {
            count: 10_000,
            runs: 100,
            storm: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().unwrap_or_default().parse::<u64>();
            match argument.as_str() {
                "--count" => wanted.count = number()?,
                "--runs" => wanted.runs = number()?.max(1),
                // How long it takes follows from the heartbeat and the storm.
                "--minutes" => drop(number()?),
                "--storm" => wanted.storm = true,
                "--bench" => {}
                other => return Err(format!("{other} is not known").into()),
            }
        }
        Ok(wanted)
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let wanted = Wanted::read()?;
    let descriptors = raise_descriptor_limit();
    if descriptors < wanted.count + SPARE {
        return Err(format!(
            "{} readers need {} descriptors in the client and in the server, and a process may have {descriptors}: \
             raise the hard limit (ulimit -Hn, LimitNOFILE), or read with fewer (--count)",
            wanted.count,
            wanted.count + SPARE
        )
        .into());
    }
    // One place, whose run waits for its provider: the others wait for the place.
    let stage = Stage::set(&["--hold-call", "1"]);
    let server = stage.serve_with(&["--max-concurrent-runs", "1"]);
    let agent = stage.write_walker("walker", "");
    stage.on(&server, &["agents", "apply", &agent]).expect(0);
    let key = stage.admin_key();
    server.start_run(&key).await;
    stage.provider.get("/control/held").await;
    let mut runs = Vec::new();
    for _ in 0..wanted.runs {
        runs.push(server.start_run(&key).await);
    }
    let before = server.resident_bytes();
    let (at, place) = watch::channel(Some(Address::new(&server.url, key.clone())));
    let witness = Arc::new(Witness::default());
    let (mut readers, mut caught_up) = (JoinSet::new(), Vec::new());
    for number in 0..wanted.count {
        let run = runs.get(usize::try_from(number % wanted.runs)?);
        let mut reader = Reader::new(run.ok_or("a run for each reader")?, &witness);
        let (progress, seen) = watch::channel(0);
        reader.progress = Some(progress);
        caught_up.push(seen);
        readers.spawn(read_through(reader, place.clone(), Random(number)));
    }
    for seen in &mut caught_up {
        seen.wait_for(|after| *after >= 1).await?;
    }
    drop(caught_up);
    report_idle(&server, before, wanted.count).await;
    let server = if wanted.storm {
        server.kill();
        at.send_replace(None);
        stage.provider.release().await;
        let server = stage.serve_with(&["--max-concurrent-runs", "64"]);
        at.send_replace(Some(Address::new(&server.url, key)));
        server
    } else {
        stage.provider.release().await;
        server
    };
    let mut firsts = Vec::new();
    while let Some(joined) = readers.join_next().await {
        let (reader, first) = joined??;
        if reader.after != witness.last(&reader.run) {
            return Err(format!("a reader of {} ended at {}", reader.run, reader.after).into());
        }
        firsts.extend(first);
    }
    println!("{} readers saw all events, each once and in order", wanted.count);
    if wanted.storm {
        firsts.sort_unstable();
        let at = |share: usize| firsts.get(firsts.len().saturating_sub(1) * share / 100);
        println!(
            "from connecting again to the first event: p50 {:?}, p99 {:?}",
            at(50),
            at(99)
        );
    }
    drop(server);
    Ok(())
}

/// Reads a run to its end; after a death of the server at some moment of the storm. Tells how long the first event took then.
async fn read_through(
    mut reader: Reader,
    mut place: watch::Receiver<Option<Address>>,
    mut random: Random,
) -> Result<(Reader, Option<Duration>), String> {
    let mut first = None;
    while !reader.ended {
        let at = place
            .wait_for(Option::is_some)
            .await
            .map(|at| (*at).clone())
            .ok()
            .flatten();
        let at = at.ok_or("the server is gone")?;
        if reader.connections == 1 {
            tokio::time::sleep(Duration::from_millis(random.within(&(0..STORM_MS)))).await;
        }
        match reader.connect(&at, None).await? {
            End::Complete | End::NothingMore => {}
            End::Cut | End::Left => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        if reader.connections > 1 {
            first = first.or(reader.first_event);
        }
    }
    Ok((reader, first))
}

/// Prints what silence costs.
async fn report_idle(server: &Daemon, before: u64, count: u64) {
    let mib = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
    let opened = server.resident_bytes().saturating_sub(before);
    let ticks = processor_ticks(server);
    tokio::time::sleep(IDLE).await;
    let spent = processor_ticks(server) - ticks;
    let settled = server.resident_bytes().saturating_sub(before);
    println!(
        "{count} silent readers: {:.1} MiB above {:.1} MiB, {} bytes each ({:.1} MiB when they had just come); {:.1} % of a core",
        mib(settled),
        mib(before),
        settled / count,
        mib(opened),
        spent as f64 / IDLE.as_secs_f64(),
    );
}

/// The processor time that it used, in hundredths of a second.
fn processor_ticks(server: &Daemon) -> u64 {
    let stat = server.proc("stat");
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let numbers = fields.skip(11).take(2).map(|field| field.parse::<u64>());
    numbers.filter_map(Result::ok).sum()
}
