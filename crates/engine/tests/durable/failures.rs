//! Which failure is tried again, under which key, and when.

use super::world::{Script, Setup};
use portolan_core::{event::Event, failure::FailureKind, model::ModelFailure};
use portolan_engine::DriveEnd;
use portolan_journal::RunStatus;
use serde_json::json;

#[tokio::test]
async fn a_definite_failure_moves_the_attempt_and_the_key() {
    let script = vec![
        Script::Fail(ModelFailure::RateLimited, Some(700)),
        Script::Fail(ModelFailure::Overloaded, None),
        Script::Final(json!("ok")),
    ];
    let world = Setup::new(script).admitted().await;
    let end = world.drive_through_time(1).await;
    assert!(matches!(end, DriveEnd::Ended), "{end:?}");
    assert_eq!(world.keys(), ["RUN:llm-1:1", "RUN:llm-1:2", "RUN:llm-1:3"]);
    assert_eq!(
        world.kinds().await,
        [
            "run_queued",
            "run_started",
            "step_started",
            "step_failed",
            "step_started",
            "step_failed",
            "step_started",
            "step_completed",
            "run_succeeded"
        ]
    );
    // Pauses between attempts are no active time.
    assert_eq!(world.row().await.active_ms, 0);
}

#[tokio::test]
async fn a_failure_in_doubt_is_sent_again_under_its_own_key() {
    let script = vec![
        Script::Fail(ModelFailure::InDoubt, None),
        Script::Final(json!("ok")),
    ];
    let world = Setup::new(script).admitted().await;
    world.drive_through_time(1).await;
    assert_eq!(world.keys(), ["RUN:llm-1:1", "RUN:llm-1:1"]);
    assert_eq!(world.row().await.progress.status, RunStatus::Succeeded);
    assert!(
        !world.kinds().await.contains(&"step_ambiguous".to_owned()),
        "the provider honours keys"
    );
}

#[tokio::test]
async fn a_resend_to_a_provider_that_may_not_honour_keys_is_journaled() {
    let script = vec![
        Script::Fail(ModelFailure::InDoubt, None),
        Script::Final(json!("ok")),
    ];
    let world = Setup {
        honours_keys: false,
        ..Setup::new(script)
    }
    .admitted()
    .await;
    world.drive_through_time(1).await;
    assert_eq!(
        world
            .kinds()
            .await
            .iter()
            .filter(|kind| *kind == "step_ambiguous")
            .count(),
        1
    );
}

#[tokio::test]
async fn refusals_are_not_tried_again() {
    for failure in [
        ModelFailure::Refused,
        ModelFailure::Account,
        ModelFailure::Panicked,
    ] {
        let world = Setup::new(vec![Script::Fail(failure, None)]).admitted().await;
        world.drive_through_time(1).await;
        assert_eq!(world.keys(), ["RUN:llm-1:1"], "{failure:?}");
        assert_eq!(world.failure().await.kind, FailureKind::Provider, "{failure:?}");
    }
}

#[tokio::test]
async fn sends_are_bounded_in_doubt_and_out_of_it() {
    for failure in [ModelFailure::InDoubt, ModelFailure::Overloaded] {
        let world = Setup::new(vec![Script::Fail(failure, None); 20]).admitted().await;
        world.drive_through_time(1).await;
        assert_eq!(world.sends().len(), 4, "{failure:?}");
        assert_eq!(world.failure().await.kind, FailureKind::Provider, "{failure:?}");
    }
}

#[tokio::test]
async fn a_long_pause_is_a_durable_timer_that_holds_no_worker() {
    let script = vec![
        Script::Fail(ModelFailure::RateLimited, Some(60_000)),
        Script::Final(json!("ok")),
    ];
    let world = Setup::new(script).admitted().await;
    let end = world.drive(1).await;
    assert!(matches!(end, DriveEnd::Waiting { .. }), "{end:?}");
    let row = world.row().await;
    assert_eq!((row.progress.status, row.owner), (RunStatus::Waiting, None));
    assert!(world.claim(2).await.is_none(), "it is not due yet");
    world.clock.advance_ms(60_000);
    let end = world.drive(2).await;
    assert!(matches!(end, DriveEnd::Ended), "{end:?}");
    assert_eq!(world.keys(), ["RUN:llm-1:1", "RUN:llm-1:2"]);
    assert!(world.kinds().await.contains(&"run_resumed".to_owned()));
    assert_eq!(world.row().await.active_ms, 0, "waiting is no active time");
}

#[tokio::test]
async fn no_answer_within_the_attempts_timeout_is_in_doubt() {
    let script = vec![Script::Hang, Script::Final(json!("ok"))];
    let world = Setup::new(script)
        .with(json!({"retries": {"timeoutMs": 1_000}}))
        .admitted()
        .await;
    world.drive_through_time(1).await;
    assert_eq!(world.keys(), ["RUN:llm-1:1", "RUN:llm-1:1"]);
    assert!(matches!(world.last().await, Event::RunSucceeded(_)));
}

#[tokio::test]
async fn the_wall_time_ends_a_call_in_flight() {
    let world = Setup::new(vec![Script::Hang])
        .with(json!({"limits": {"wallTimeMs": 1_500}}))
        .admitted()
        .await;
    world.drive_through_time(1).await;
    let failure = world.failure().await;
    assert_eq!(failure.kind, FailureKind::LimitExhausted);
    assert_eq!(
        failure.boundary.map(|boundary| boundary.name()),
        Some("after_model")
    );
    assert_eq!(world.row().await.active_ms, 1_500);
}

#[tokio::test]
async fn waits_without_a_worker_do_not_start_the_count_of_sends_anew() {
    for failure in [ModelFailure::RateLimited, ModelFailure::InDoubt] {
        let world = Setup::new(vec![Script::Fail(failure, Some(60_000)); 20])
            .admitted()
            .await;
        let mut waits = 0;
        while matches!(world.drive(1).await, DriveEnd::Waiting { .. }) {
            waits += 1;
            world.clock.advance_ms(60_000);
        }
        assert_eq!((waits, world.sends().len()), (3, 4), "{failure:?}");
        assert_eq!(world.failure().await.kind, FailureKind::Provider, "{failure:?}");
    }
}
