//! Cancel, from every state.

use super::world::{RUN, Script, Setup};
use portolan_core::{
    event::{Event, RunCancelRequested},
    failure::FailureKind,
    model::ModelFailure,
    time::Clock,
};
use portolan_engine::DriveEnd;
use portolan_journal::{Append, Appended, Command, Commanded, JournalStore, NewEvent, RunStatus};
use serde_json::json;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn a_queued_run_is_cancelled_without_asking_a_model() {
    let world = Setup::new(Vec::new()).admitted().await;
    world
        .journal
        .command(RUN, Command::Cancel, world.clock.now())
        .await
        .expect("accepted");
    assert_eq!(world.row().await.shown_status(), "cancelling");
    world.drive(1).await;
    assert_eq!(world.row().await.progress.status, RunStatus::Cancelled);
    assert!(world.sends().is_empty());
    assert_eq!(
        world.kinds().await,
        [
            "run_queued",
            "run_started",
            "run_cancel_requested",
            "run_cancelled"
        ]
    );
}

#[tokio::test]
async fn a_call_in_flight_is_given_up() {
    let world = Setup::new(vec![Script::Hang]).admitted().await;
    let launch = world.claim(1).await.expect("claims");
    let driving = portolan_engine::drive(&world.deps, launch, &world.stop, |_| {});
    let mut driving = std::pin::pin!(driving);
    while world.sends().is_empty() {
        assert!(futures::poll!(&mut driving).is_pending());
    }
    world
        .journal
        .command(RUN, Command::Cancel, world.clock.now())
        .await
        .expect("accepted");
    let end = driving.await;
    assert!(matches!(end, DriveEnd::Ended), "{end:?}");
    let failure = world.failure().await;
    assert_eq!(failure.kind, FailureKind::Cancelled);
    assert_eq!(
        failure.boundary.map(|boundary| boundary.name()),
        Some("after_model")
    );
    let again = world
        .journal
        .command(RUN, Command::Cancel, world.clock.now())
        .await
        .expect("answered");
    assert_eq!(again, Commanded::AlreadyTerminal);
}

#[tokio::test]
async fn a_waiting_run_is_cancelled_without_waiting_on() {
    let script = vec![Script::Fail(ModelFailure::RateLimited, Some(600_000))];
    let world = Setup::new(script).admitted().await;
    assert!(matches!(world.drive(1).await, DriveEnd::Waiting { .. }));
    world
        .journal
        .command(RUN, Command::Cancel, world.clock.now())
        .await
        .expect("accepted");
    assert!(matches!(world.drive(1).await, DriveEnd::Ended));
    assert_eq!(world.row().await.progress.status, RunStatus::Cancelled);
    assert_eq!(world.sends().len(), 1);
}

#[tokio::test]
async fn a_model_step_in_doubt_is_not_sent_again_for_a_cancelled_run() {
    let world = Setup::new(vec![Script::Hang]).admitted().await;
    world.drive_and_die(1).await;
    world
        .journal
        .command(RUN, Command::Cancel, world.clock.now())
        .await
        .expect("accepted");
    world.drive(2).await;
    assert_eq!(world.sends().len(), 1);
    let Event::RunCancelled(ended) = world.last().await else {
        panic!("not cancelled")
    };
    assert_eq!(
        ended.error.boundary.map(|boundary| boundary.name()),
        Some("after_model")
    );
}

#[tokio::test]
async fn a_draining_owner_gives_the_run_back_and_nothing_is_sent_twice() {
    let script = vec![Script::Call("nobody", json!({})), Script::Final(json!("ok"))];
    let world = Setup::new(script).admitted().await;
    world.stop.drain();
    assert!(matches!(world.drive(1).await, DriveEnd::Released));
    assert_eq!(world.row().await.owner, None);
    assert!(world.sends().is_empty());
}

#[tokio::test]
async fn a_tool_that_is_given_up_ends_what_it_started_before_the_run_ends() {
    let world = Setup::new(vec![Script::Call("hang", json!({}))]).admitted().await;
    let launch = world.claim(1).await.expect("claims");
    let driving = portolan_engine::drive(&world.deps, launch, &world.stop, |_| {});
    let mut driving = std::pin::pin!(driving);
    while world.hanging_tool.0.load(Ordering::SeqCst) == 0 {
        assert!(futures::poll!(&mut driving).is_pending());
    }
    world
        .journal
        .command(RUN, Command::Cancel, world.clock.now())
        .await
        .expect("accepted");
    let end = driving.await;
    assert!(matches!(end, DriveEnd::Ended), "{end:?}");
    assert_eq!(
        world.hanging_tool.1.load(Ordering::SeqCst),
        1,
        "the tool was dropped instead of stopped"
    );
    assert_eq!(
        world.failure().await.boundary.map(|boundary| boundary.name()),
        Some("after_tool")
    );
}

#[tokio::test]
async fn a_cancel_that_an_earlier_owner_noticed_is_not_forgotten() {
    let world = Setup::new(vec![Script::Hang]).admitted().await;
    world
        .journal
        .command(RUN, Command::Cancel, world.clock.now())
        .await
        .expect("accepted");
    let launch = world.claim(1).await.expect("claims");
    let noticed = Event::RunCancelRequested(RunCancelRequested {
        requested_at: world.clock.now(),
    });
    let appended = world.journal.append(Append {
        run: RUN,
        epoch: launch.epoch,
        after: None,
        at: world.clock.now(),
        active_ms: 0,
        events: vec![NewEvent::encode(&noticed, None).expect("encodes")],
        progress: world.row().await.progress,
        advances: false,
        settle: None,
        top_up: None,
        consumed: world
            .journal
            .inbox(RUN)
            .await
            .expect("reads")
            .iter()
            .map(|entry| entry.id)
            .collect(),
        release: None,
    });
    assert!(matches!(appended.await, Ok(Appended::Committed { .. })));
    world.drive(2).await;
    assert_eq!(world.row().await.progress.status, RunStatus::Cancelled);
    assert!(world.sends().is_empty());
}
