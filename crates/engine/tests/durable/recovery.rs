//! Owners that die, again and again; owners that come back.

use super::world::{RUN, Script, Setup, next_epoch};
use portolan_core::{failure::FailureKind, ids::Seq};
use portolan_engine::{DriveEnd, drive, project};
use portolan_journal::{JournalStore, RunStatus};
use serde_json::json;

#[tokio::test]
async fn a_run_that_never_gets_on_is_quarantined() {
    let world = Setup::new(vec![Script::Hang; 20]).admitted().await;
    for owner in 1..=6 {
        world.drive_and_die(owner).await;
    }
    let end = world.drive(7).await;
    assert!(matches!(end, DriveEnd::Ended), "{end:?}");
    assert_eq!(world.failure().await.kind, FailureKind::Quarantined);
    assert_eq!(world.sends().len(), 6, "the seventh owner asks nothing");
}

#[tokio::test]
async fn getting_on_resets_the_count_of_redrives() {
    let mut script = Vec::new();
    for _ in 0..4 {
        script.push(Script::Call("nobody", json!({})));
        script.extend(vec![Script::Hang; 3]);
    }
    script.push(Script::Final(json!("ok")));
    let world = Setup::new(script).admitted().await;
    for owner in 1..=12 {
        world.drive_and_die(owner).await;
    }
    assert!(matches!(world.drive(13).await, DriveEnd::Ended));
    assert_eq!(world.row().await.progress.status, RunStatus::Succeeded);
}

#[tokio::test]
async fn a_stale_owner_changes_nothing() {
    let world = Setup::new(vec![Script::Hang, Script::Final(json!("ok"))])
        .admitted()
        .await;
    let launch = world.claim(1).await.expect("claims");
    let stale = portolan_engine::Launch {
        lease: portolan_engine::Lease::forever(),
        fresh: None,
        ..launch
    };
    let epoch = next_epoch(&stale);
    let later = world.claim(2).await.expect("claims");
    assert_eq!(later.epoch, epoch);
    let before = world.records().await.len();
    let end = drive(&world.deps, stale, &world.stop, |_| {}).await;
    assert!(matches!(end, DriveEnd::Fenced), "{end:?}");
    assert_eq!(world.records().await.len(), before);
    assert!(world.sends().is_empty());
}

#[tokio::test]
async fn every_prefix_of_the_drive_leaves_a_dense_journal_that_folds_to_its_row() {
    let world = Setup::new(vec![
        Script::Call("nobody", json!({})),
        Script::Hang,
        Script::Final(json!(1)),
        Script::Final(json!("ok")),
    ])
    .admitted()
    .await;
    world.drive_and_die(1).await;
    world.drive(2).await;
    let records = world.records().await;
    for (place, record) in records.iter().enumerate() {
        assert_eq!(record.seq, Seq(place as u64 + 1));
    }
    let mut fold = portolan_journal::Progress::default();
    for record in &records {
        fold.apply(&record.event().expect("decodes"), record.at, record.step)
            .expect("folds");
    }
    assert_eq!(fold, world.row().await.progress);
    assert_eq!(fold.usage.result_rejections, 1);
}

#[tokio::test]
async fn the_trace_of_a_recovered_run_is_that_of_an_undisturbed_one() {
    let script = vec![
        Script::Call("nobody", json!({})),
        Script::Final(json!(1)),
        Script::Final(json!("ok")),
    ];
    let calm = Setup::new(script.clone()).admitted().await;
    calm.drive(1).await;
    let mut disturbed_script = script;
    disturbed_script.insert(1, Script::Hang);
    disturbed_script.insert(3, Script::Hang);
    let disturbed = Setup::new(disturbed_script).admitted().await;
    disturbed.drive_and_die(1).await;
    disturbed.drive_and_die(2).await;
    disturbed.drive(3).await;
    let kinds = |records: &[portolan_core::event::Recorded]| -> Vec<(String, String)> {
        let trace = project::trace(records).expect("a trace");
        trace
            .iter()
            .map(|event| {
                (
                    event.kind.name().to_owned(),
                    shape(&event.kind.data().to_string()),
                )
            })
            .collect()
    };
    let (calm, disturbed) = (calm.records().await, disturbed.records().await);
    assert_eq!(kinds(&calm), kinds(&disturbed));
    assert!(kinds(&calm).iter().any(|(name, _)| name == "execution.completed"));
    assert_eq!(project::steps(RUN.run, &disturbed).expect("steps").len(), 3);
}

/// Call ids of the fake provider count sends, which differ.
fn shape(data: &str) -> String {
    data.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[tokio::test]
async fn a_terminal_run_is_left_alone() {
    let world = Setup::new(vec![Script::Final(json!("ok"))]).admitted().await;
    world.drive(1).await;
    assert!(world.claim(2).await.is_none());
    assert_eq!(
        world.journal.run(RUN).await.expect("reads").expect("run").owner,
        None
    );
}

#[tokio::test]
async fn a_refused_result_before_a_death_is_journaled_once() {
    let world = Setup::new(vec![
        Script::Final(json!(1)),
        Script::Hang,
        Script::Final(json!("ok")),
    ])
    .admitted()
    .await;
    world.drive_and_die(1).await;
    world.drive(2).await;
    let rejected = world
        .kinds()
        .await
        .into_iter()
        .filter(|kind| kind == "result_rejected")
        .count();
    assert_eq!(
        (rejected, world.row().await.progress.usage.result_rejections),
        (1, 1)
    );
}
