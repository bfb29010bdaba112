//! What was started and not answered when its owner died.

use super::world::{RUN, Script, Setup, World};
use portolan_core::{Fut, event::Event, ids::IdempotencyKey, model::ModelFailure};
use portolan_engine::{DriveEnd, Lease, LedgerAnswer, ToolLedger, drive};
use portolan_journal::RunStatus;
use serde_json::json;
use std::sync::{Arc, Mutex};

/// The first owner dies while a tool is under way.
async fn died_in_a_tool(ledger: Arc<dyn ToolLedger>) -> World {
    let script = vec![Script::Call("hang", json!({})), Script::Final(json!("ok"))];
    let world = Setup {
        ledger,
        ..Setup::new(script)
    }
    .admitted()
    .await;
    world.drive_and_die(1).await;
    world
}

#[derive(Debug)]
struct FakeLedger {
    answer: LedgerAnswer,
    asked: Mutex<Vec<String>>,
}

impl ToolLedger for FakeLedger {
    fn outcome<'a>(&'a self, key: &'a IdempotencyKey) -> Fut<'a, LedgerAnswer> {
        self.asked.lock().expect("not poisoned").push(key.to_string());
        Box::pin(std::future::ready(self.answer.clone()))
    }
}

#[tokio::test]
async fn a_once_tool_that_nobody_knows_about_is_not_run_again() {
    let world = died_in_a_tool(Arc::new(portolan_engine::NoLedger)).await;
    let end = world.drive(2).await;
    assert!(matches!(end, DriveEnd::Ended), "{end:?}");
    let kinds = world.kinds().await;
    assert!(
        kinds.contains(&"step_ambiguous".to_owned()) && kinds.contains(&"run_recovered".to_owned()),
        "{kinds:?}"
    );
    let done = world
        .records()
        .await
        .into_iter()
        .find_map(|record| match record.event().expect("decodes") {
            Event::StepCompleted(done) if record.step.is_some_and(|step| step.to_string() == "tool-1") => {
                Some(done)
            }
            _ => None,
        });
    assert_eq!(
        done.map(|done| done.status),
        Some(portolan_core::event::StepStatus::Unknown)
    );
    assert_eq!(world.keys(), ["RUN:llm-1:1", "RUN:llm-2:1"]);
}

#[tokio::test]
async fn a_once_tool_that_the_ledger_knows_is_answered_from_it() {
    let outcome = Ok(json!({"exit_code": 0}));
    let answer = LedgerAnswer::Ran {
        outcome,
        workspace_kept: true,
    };
    let ledger = Arc::new(FakeLedger {
        answer,
        asked: Mutex::default(),
    });
    let world = died_in_a_tool(ledger.clone()).await;
    world.drive(2).await;
    assert_eq!(
        ledger.asked.lock().expect("not poisoned").as_slice(),
        [format!("{}:tool-1:1", RUN.run)]
    );
    assert_eq!(world.row().await.progress.status, RunStatus::Succeeded);
    assert!(!world.kinds().await.contains(&"step_ambiguous".to_owned()));
}

#[tokio::test]
async fn an_interrupted_model_call_is_sent_again_with_the_same_key_and_paid_once() {
    let world = Setup::new(vec![Script::Hang, Script::Final(json!("ok"))])
        .admitted()
        .await;
    world.drive_and_die(1).await;
    world.drive(2).await;
    assert_eq!(world.keys(), ["RUN:llm-1:1", "RUN:llm-1:1"]);
    let row = world.row().await;
    assert_eq!(
        (row.progress.status, row.progress.recoveries),
        (RunStatus::Succeeded, 1)
    );
    assert_eq!(row.progress.usage.model_calls, 1);
}

#[tokio::test]
async fn a_write_in_doubt_is_repeated_on_the_files_of_the_last_committed_step() {
    let script = vec![
        Script::Call(
            "editor",
            json!({"operation": "write", "path": "a.txt", "content": "one"}),
        ),
        Script::Hang,
        Script::Final(json!("ok")),
    ];
    let members = json!({
        "tools": ["editor"],
        "workspace": {"kind": "memory", "files": {"b.txt": "kept"}, "allow": ["list", "read", "create", "edit"]},
    });
    let world = Setup::new(script).with(members).admitted().await;
    world.drive_and_die(1).await;
    // The workspace of the first owner is gone with its memory; the second one restores it from the journal.
    world.drive(2).await;
    let artifacts: Vec<String> = world
        .kinds()
        .await
        .into_iter()
        .filter(|kind| kind.starts_with("artifact_"))
        .collect();
    assert_eq!(artifacts, ["artifact_created"]);
    assert_eq!(world.row().await.progress.status, RunStatus::Succeeded);
}

#[tokio::test]
async fn that_a_repetition_never_happened_says_nothing_about_the_send_before_it() {
    for failure in [
        ModelFailure::NotSent,
        ModelFailure::RateLimited,
        ModelFailure::Overloaded,
    ] {
        let script = vec![
            Script::Hang,
            Script::Fail(failure, None),
            Script::Final(json!("ok")),
        ];
        let world = Setup::new(script).admitted().await;
        world.drive_and_die(1).await;
        let end = world.drive_through_time(2).await;
        assert!(matches!(end, DriveEnd::Ended), "{end:?}");
        assert_eq!(world.row().await.progress.status, RunStatus::Succeeded);
        assert_eq!(
            world.keys(),
            ["RUN:llm-1:1", "RUN:llm-1:1", "RUN:llm-1:1"],
            "{failure:?}: another key would be charged a second time"
        );
    }
}

#[tokio::test]
async fn a_definite_failure_of_a_first_send_makes_a_new_attempt() {
    let script = vec![
        Script::Fail(ModelFailure::Overloaded, None),
        Script::Final(json!("ok")),
    ];
    let world = Setup::new(script).admitted().await;
    world.drive_through_time(1).await;
    assert_eq!(world.keys(), ["RUN:llm-1:1", "RUN:llm-1:2"]);
}

#[tokio::test]
async fn an_owner_whose_lease_is_over_sends_nothing_and_runs_nothing() {
    let asks = Setup::new(vec![Script::Final(json!("ok"))]).admitted().await;
    let runs = died_in_a_tool(Arc::new(portolan_engine::NoLedger)).await;
    let answer = LedgerAnswer::NeverRan;
    let ledger = Arc::new(FakeLedger {
        answer,
        asked: Mutex::default(),
    });
    let reruns = died_in_a_tool(ledger).await;
    for (world, sends) in [(asks, 0), (runs, 1), (reruns, 1)] {
        let tools = world.hanging_tool.0.load(std::sync::atomic::Ordering::SeqCst);
        let mut launch = world.claim(2).await.expect("a run to claim");
        launch.lease = Lease::until(0);
        let end = drive(&world.deps, launch, &world.stop, |_| {}).await;
        assert!(matches!(end, DriveEnd::Fenced), "{end:?}");
        assert_eq!(world.sends().len(), sends);
        let tools_now = world.hanging_tool.0.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(tools_now, tools);
    }
}
