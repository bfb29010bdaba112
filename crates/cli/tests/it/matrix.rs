//! The crash matrix: at each fault point a server dies by SIGKILL, is started again, and everything that was promised holds.
//!
//! A case is one point, one way to fail and one store, with a process, a provider and a data directory of its own. Where the
//! table asks for it a point also fails without a death: by an error, by a delay longer than a lease, by an outcome that nobody
//! knows. `cargo xtask matrix` chooses by the environment; without a choice each point kills once.

mod case;
mod judge;
mod provider;
mod server;
mod users;

use case::{Case, Kind, Verdict};
use portolan_core::faults::Point;
use portolan_testkit::{
    matrix::{Ground, ROWS},
    postgres::Cluster,
};
use std::{fmt::Write as _, sync::Arc};
use tokio::{sync::Semaphore, task::JoinSet};

/// Cases that run beside each other.
const AT_ONCE: usize = 4;

/// Points that only a store shared by several servers comes by: with one owner no lease is lost.
const SHARED_ONLY: &[Point] = &[Point::LeaseLost];

fn chosen(shared: bool) -> Vec<Case> {
    let only = std::env::var("PORTOLAN_MATRIX_POINT").ok();
    let is_full = std::env::var_os("PORTOLAN_MATRIX_FULL").is_some();
    let mut cases = Vec::new();
    for point in Point::ALL.iter().copied() {
        let is_there = shared || !SHARED_ONLY.contains(&point);
        if !is_there || only.as_deref().is_some_and(|only| only != point.name()) {
            continue;
        }
        let case = |kind, nth| Case { point, kind, nth };
        cases.push(case(Kind::Kill, 1));
        if is_full {
            // The one lease that is let go is lost once.
            if point != Point::LeaseLost {
                cases.push(case(Kind::Kill, 2));
            }
            if point.is_starred() {
                cases.extend([Kind::Error, Kind::Delay, Kind::Unknown].map(|kind| case(kind, 1)));
            }
        }
    }
    cases
}

async fn all(store: &'static str, cluster: Option<Arc<Cluster>>) {
    let cases = chosen(cluster.is_some());
    assert!(!cases.is_empty(), "there is no point of that name on {store}");
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (number, case) in cases.into_iter().enumerate() {
        let (places, cluster) = (Arc::clone(&places), cluster.clone());
        running.spawn(async move {
            let _place = places.acquire_owned().await.expect("never closed");
            (number, case, case.run(cluster).await)
        });
    }
    let mut judged: Vec<(usize, Case, Verdict)> = Vec::new();
    while let Some(ended) = running.join_next().await {
        judged.push(ended.expect("a case catches its panics"));
    }
    judged.sort_by_key(|(number, ..)| *number);
    print(store, &judged);
    let failed: Vec<String> = judged
        .iter()
        .filter(|(_, case, verdict)| !verdict.is_good(*case))
        .map(|(_, case, verdict)| format!("{case}: {verdict:?}"))
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {} cases:\n{}",
        failed.len(),
        judged.len(),
        failed.join("\n")
    );
}

/// Prints the table, and writes it as JSON where the environment says.
#[expect(clippy::print_stdout, reason = "the table is what the matrix is run for")]
fn print(store: &str, judged: &[(usize, Case, Verdict)]) {
    let mut table = format!(
        "\n{:<22} {:<6} {:<8} {:<9} {:>4} {:>6} {:>8} verdict\n",
        "point", "FP", "kind", "store", "hit", "deaths", "ms"
    );
    let mut rows = Vec::new();
    for (_, case, verdict) in judged {
        let (name, number) = (case.point.name(), case.point.fault_point());
        let said = verdict.said(*case);
        let _ = writeln!(
            table,
            "{name:<22} FP-{number:02}  {:<8} {store:<9} {:>4} {:>6} {:>8} {said}",
            case.kind.name(),
            verdict.hits,
            verdict.deaths,
            verdict.took_ms,
        );
        rows.push(serde_json::json!({
            "point": name, "fp": number, "kind": case.kind.name(), "nth": case.nth, "store": store, "hits": verdict.hits,
            "deaths": verdict.deaths, "tookMs": verdict.took_ms, "verdict": said,
        }));
    }
    for row in ROWS {
        if let Ground::Later(part) = row.ground {
            let _ = writeln!(table, "{:<22} FP-{:02}  later: {part}", "-", row.number);
        }
    }
    println!("{table}");
    if let Some(folder) = std::env::var_os("PORTOLAN_MATRIX_REPORT") {
        let path = std::path::Path::new(&folder).join(format!("matrix-{store}.json"));
        let text = serde_json::to_string_pretty(&rows).expect("a table is JSON");
        std::fs::write(path, text).expect("the folder is there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matrix_on_sqlite() {
    all("sqlite", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matrix_on_postgres() {
    all("postgres", Some(Arc::new(Cluster::start()))).await;
}
