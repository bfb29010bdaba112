//! A thousand silent readers: what they cost, and that one event wakes each of them once.

use crate::{
    crowd::{Address, End, Reader, Witness, raise_descriptor_limit},
    support::Stage,
};
use std::sync::Arc;
use tokio::{sync::watch, task::JoinSet};

const TAILS: usize = 1_000;
const RUNS: usize = 10;
/// What one silent reader may cost the server.
const MOST_BYTES_A_TAIL: u64 = 20 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_silent_readers_are_cheap_and_each_is_told_once() {
    raise_descriptor_limit();
    // One place, whose run waits for its provider: the others wait for the place.
    let stage = Stage::set(&["--hold-call", "1"]);
    let server = stage.serve_with(&["--max-concurrent-runs", "1"]);
    let agent = stage.write_walker("walker", "");
    stage.on(&server, &["agents", "apply", &agent]).expect(0);
    let at = Address::new(&server.url, stage.admin_key());
    server.start_run(&at.key).await;
    stage.provider.get("/control/held").await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(server.start_run(&at.key).await);
    }

    let before = server.resident_bytes();
    let witness = Arc::new(Witness::default());
    let (mut readers, mut caught_up) = (JoinSet::new(), Vec::new());
    for number in 0..TAILS {
        let mut reader = Reader::new(&runs[number % RUNS], &witness);
        let (progress, seen) = watch::channel(0);
        reader.progress = Some(progress);
        caught_up.push(seen);
        let at = at.clone();
        readers.spawn(async move {
            let end = reader.connect(&at, None).await;
            (reader, end)
        });
    }
    for seen in &mut caught_up {
        seen.wait_for(|after| *after >= 1).await.expect("it reads");
    }
    let cost = server.resident_bytes().saturating_sub(before) / TAILS as u64;
    assert!(cost <= MOST_BYTES_A_TAIL, "{cost} bytes for each silent reader");

    stage.provider.release().await;
    while let Some(joined) = readers.join_next().await {
        let (reader, end) = joined.expect("no panic");
        assert_eq!(end, Ok(End::Complete), "{reader:?}");
        assert_eq!(reader.after, witness.last(&reader.run), "everybody saw all of it");
    }
}
