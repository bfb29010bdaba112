//! Hundreds of readers whose connections break anywhere while the server dies of SIGKILL and comes back elsewhere: each ends
//! with the whole journal, each event once and in order, and nothing that anybody saw is gone.

use crate::{
    crowd::{Address, End, Reader, Witness, raise_descriptor_limit},
    random::Random,
    support::{Daemon, Stage, assert_dense, client},
};
use portolan_testkit::postgres::Cluster;
use std::{fs, sync::Arc};
use tokio::{sync::watch, task::JoinSet};

const RUNS: u64 = 6;
const READERS: u64 = 300;
const KILLS: u64 = 4;
/// Model calls between two deaths; a run has seven.
const SENDS: u64 = 8;
/// Bytes of a connection: from a piece of a frame to several events.
const BYTES: std::ops::Range<u64> = 1..4_000;

/// The servers that are there.
type Servers = watch::Receiver<Vec<Address>>;

/// One of the servers that are there, by chance.
async fn choose(servers: &mut Servers, random: &mut Random) -> Result<Address, String> {
    let there = servers.wait_for(|there| !there.is_empty()).await;
    let there = there.map_err(|_| "the servers are gone before the runs end")?;
    let place = random.within(&(0..there.len() as u64));
    Ok(there[usize::try_from(place).expect("few")].clone())
}

/// Reads a run to its end, wherever a server is.
async fn read_through(
    mut reader: Reader,
    mut servers: Servers,
    mut random: Random,
) -> Result<Reader, String> {
    while !reader.ended {
        let place = choose(&mut servers, &mut random).await?;
        // Every third connection is read as far as it goes.
        let most = (random.within(&(0..3)) > 0).then(|| random.within(&BYTES));
        let most = most.map(|bytes| usize::try_from(bytes).expect("few"));
        if reader.connect(&place, most).await? == End::Cut {
            // The server is dying or dead: nobody listens there any more.
            tokio::task::yield_now().await;
        }
    }
    let place = choose(&mut servers, &mut random).await?;
    match reader.connect(&place, None).await? {
        End::NothingMore | End::Cut => Ok(reader),
        end => Err(format!(
            "something comes after the end of {}: {end:?}",
            reader.run
        )),
    }
}

/// Everybody reads to the end and saw the same; gives the number of connections.
async fn all_through(mut readers: JoinSet<Result<Reader, String>>, witness: &Witness) -> u64 {
    let mut connections = 0;
    while let Some(joined) = readers.join_next().await {
        let reader = joined
            .expect("no panic")
            .unwrap_or_else(|wrong| panic!("{wrong}"));
        connections += u64::from(reader.connections);
        assert_eq!(reader.after, witness.last(&reader.run), "{reader:?}");
    }
    connections
}

/// The journals of the runs are what the readers saw.
async fn compare(runs: &[String], server: &Daemon, key: &str, witness: &Witness) {
    for run in runs {
        let request = client()
            .get(format!("{}/v1/runs/{run}/events", server.url))
            .bearer_auth(key)
            .header("accept", "application/json");
        let answer = request.send().await.expect("an answer");
        let body = answer.bytes().await.expect("whole");
        let journal: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let events = journal["data"].as_array().expect("a list");
        assert_dense(events);
        assert_eq!(events.len() as u64, witness.last(run));
    }
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

    let (at, servers) = watch::channel(vec![Address::new(&server.url, key.clone())]);
    let witness = Arc::new(Witness::default());
    let readers = crowd(READERS, &runs, &servers, &witness);
    for life in 1..=KILLS {
        stage
            .provider
            .get(&format!("/control/sends/{}", life * SENDS))
            .await;
        server.kill();
        at.send_replace(Vec::new());
        server = stage.serve();
        at.send_replace(vec![Address::new(&server.url, key.clone())]);
    }
    let connections = all_through(readers, &witness).await;
    assert!(
        connections > READERS * 3,
        "{connections} connections are no storm"
    );
    compare(&runs, &server, &key, &witness).await;
}

fn crowd(
    count: u64,
    runs: &[String],
    servers: &Servers,
    witness: &Arc<Witness>,
) -> JoinSet<Result<Reader, String>> {
    let mut readers = JoinSet::new();
    for number in 0..count {
        let run = usize::try_from(number).expect("few") % runs.len();
        let reader = Reader::new(&runs[run], witness);
        readers.spawn(read_through(reader, servers.clone(), Random(number)));
    }
    readers
}

/// Two servers on one database, killed in turn: a reader goes on at whichever is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_go_on_at_the_other_server() {
    raise_descriptor_limit();
    let cluster = Cluster::start();
    let database = cluster.database();
    let stage = Stage::set(&["--thinking-ms", "5"]);
    let path = stage.path().join("portolan.toml");
    let config = fs::read_to_string(&path).expect("there");
    fs::write(&path, format!("leaseMs = 900\nsweepMs = 100\n{config}")).expect("written");
    let serve = |data: &str| {
        let listen = ["serve", "--listen", "127.0.0.1:0", "--data", data];
        let arguments = [&listen[..], &["--database", &database]].concat();
        Daemon::start(stage.path(), &format!("{data}.log"), &arguments)
    };
    let (mut first, mut second) = (serve("data"), serve("data-of-the-other"));
    let agent = stage.write_walker("walker", "");
    stage.on(&first, &["agents", "apply", &agent]).expect(0);
    let key = stage.admin_key();
    let mut runs = start_runs(&first, &key).await;
    runs.extend(start_runs(&second, &key).await);

    let address = |server: &Daemon| Address::new(&server.url, key.clone());
    let (at, servers) = watch::channel(vec![address(&first), address(&second)]);
    let witness = Arc::new(Witness::default());
    let readers = crowd(100, &runs, &servers, &witness);
    for (life, killed) in (1..).zip(["data", "data-of-the-other"]) {
        stage
            .provider
            .get(&format!("/control/sends/{}", life * 2 * SENDS))
            .await;
        at.send_replace(vec![address(&second)]);
        first.kill();
        // The killed one comes back, and it is the other one's turn.
        first = std::mem::replace(&mut second, serve(killed));
        at.send_replace(vec![address(&first), address(&second)]);
    }
    all_through(readers, &witness).await;
    compare(&runs, &first, &key, &witness).await;
    compare(&runs, &second, &key, &witness).await;
    drop((first, second));
}
