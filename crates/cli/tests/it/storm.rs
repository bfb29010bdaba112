//! Hundreds of readers whose connections break anywhere while the server dies of SIGKILL and comes back elsewhere: each ends
//! with the whole journal, each event once and in order, and nothing that anybody saw is gone.

use crate::{
    crowd::{Address, End, Reader, Witness, raise_descriptor_limit},
    random::Random,
    support::{Daemon, Stage, assert_dense, client},
};
use std::sync::Arc;
use tokio::{sync::watch, task::JoinSet};

const RUNS: u64 = 6;
const READERS: u64 = 300;
const KILLS: u64 = 4;
/// Model calls between two deaths; a run has seven.
const SENDS: u64 = 8;
/// Bytes of a connection: from a piece of a frame to several events.
const BYTES: std::ops::Range<u64> = 1..4_000;

/// Reads a run to its end, wherever the server is.
async fn read_through(
    mut reader: Reader,
    mut server: watch::Receiver<Option<Address>>,
    mut random: Random,
) -> Result<Reader, String> {
    while !reader.ended {
        let place = server
            .wait_for(Option::is_some)
            .await
            .map(|place| (*place).clone());
        let Ok(Some(place)) = place else {
            return Err("the servers are gone before the runs end".to_owned());
        };
        // Every third connection is read as far as it goes.
        let most = (random.within(&(0..3)) > 0).then(|| random.within(&BYTES));
        let most = most.map(|bytes| usize::try_from(bytes).expect("few"));
        if reader.connect(&place, most).await? == End::Cut
            && server
                .borrow()
                .as_ref()
                .is_some_and(|now| now.socket == place.socket)
        {
            // The server is dying or dead: nobody listens there until it has come back elsewhere.
            tokio::task::yield_now().await;
        }
    }
    let place = server
        .wait_for(Option::is_some)
        .await
        .map(|place| (*place).clone());
    if let Ok(Some(place)) = place {
        let end = reader.connect(&place, None).await?;
        if !matches!(end, End::NothingMore | End::Cut) {
            return Err(format!(
                "something comes after the end of {}: {end:?}",
                reader.run
            ));
        }
    }
    Ok(reader)
}

async fn start_runs(server: &Daemon, key: &str) -> Vec<String> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(server.start_run(key).await);
    }
    runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_readers_loses_nothing_and_sees_nothing_twice() {
    raise_descriptor_limit();
    let stage = Stage::set(&["--thinking-ms", "5"]);
    let mut server = stage.serve();
    let agent = stage.write_walker("walker", "");
    stage.on(&server, &["agents", "apply", &agent]).expect(0);
    let key = stage.admin_key();
    let runs = start_runs(&server, &key).await;

    let (at, place) = watch::channel(Some(Address::new(&server.url, key.clone())));
    let witness = Arc::new(Witness::default());
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        let run = &runs[usize::try_from(number % RUNS).expect("few")];
        let reader = Reader::new(run, &witness);
        readers.spawn(read_through(reader, place.clone(), Random(number)));
    }
    for life in 1..=KILLS {
        stage
            .provider
            .get(&format!("/control/sends/{}", life * SENDS))
            .await;
        server.kill();
        at.send_replace(None);
        server = stage.serve();
        at.send_replace(Some(Address::new(&server.url, key.clone())));
    }
    let mut connections = 0;
    while let Some(joined) = readers.join_next().await {
        let reader = joined
            .expect("no panic")
            .unwrap_or_else(|wrong| panic!("{wrong}"));
        connections += reader.connections;
        assert_eq!(reader.after, witness.last(&reader.run), "{reader:?}");
    }
    assert!(
        u64::from(connections) > READERS * 3,
        "{connections} connections are no storm"
    );
    for run in &runs {
        let request = client()
            .get(format!("{}/v1/runs/{run}/events", server.url))
            .bearer_auth(&key)
            .header("accept", "application/json");
        let body = request
            .send()
            .await
            .expect("an answer")
            .bytes()
            .await
            .expect("whole");
        let journal: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let events = journal["data"].as_array().expect("a list");
        assert_dense(events);
        assert_eq!(
            events.len() as u64,
            witness.last(run),
            "the journal is what the readers saw"
        );
    }
}
