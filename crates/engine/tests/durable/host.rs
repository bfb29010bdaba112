//! The host: what it takes up, when, and what it gives back.

use super::world::{RUN, Script, Setup, World};
use portolan_core::{
    faults::{Plan, Point, arm_thread},
    model::ModelFailure,
};
use portolan_engine::{Host, HostOptions};
use portolan_journal::{Command, DeadOwners, JournalStore, RunStatus};
use portolan_testkit::faults::InProcess;
use serde_json::json;
use std::sync::{Arc, atomic::Ordering};

/// An hour between sweeps: nothing happens by accident.
const SELDOM: HostOptions = HostOptions {
    max_concurrent_runs: 4,
    lease_ms: 15_000,
    sweep_ms: 3_600_000,
    dead: DeadOwners::AllOthers,
};

fn hosted(world: &World) -> (Arc<Host>, tokio::task::JoinHandle<()>) {
    let host = Host::new(world.deps.clone(), SELDOM);
    let sweeping = Arc::clone(&host);
    let task = tokio::spawn(async move { sweeping.run().await });
    (host, task)
}

async fn until(world: &World, status: RunStatus) {
    for _ in 0..10_000 {
        if world.row().await.progress.status == status {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!(
        "the run is {:?} and does not become {status:?}",
        world.row().await.progress.status
    );
}

#[tokio::test]
async fn a_queued_run_is_taken_up_by_the_first_sweep() {
    let world = Setup::new(vec![Script::Final(json!("ok"))]).admitted().await;
    let (host, task) = hosted(&world);
    until(&world, RunStatus::Succeeded).await;
    assert!(host.first_sweep_done());
    host.drain(1_000).await;
    task.await.expect("the sweep ends with the host");
    assert_eq!(host.driven_runs(), 0);
}

#[tokio::test]
async fn a_waiting_run_is_taken_up_when_it_is_due_and_not_at_the_next_sweep() {
    let script = vec![
        Script::Fail(ModelFailure::RateLimited, Some(60_000)),
        Script::Final(json!("ok")),
    ];
    let world = Setup::new(script).admitted().await;
    let (host, task) = hosted(&world);
    until(&world, RunStatus::Waiting).await;
    // Lets the host arm its timer before time moves.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    world.clock.advance_ms(60_001);
    until(&world, RunStatus::Succeeded).await;
    host.drain(1_000).await;
    task.await.expect("the sweep ends with the host");
}

#[tokio::test]
async fn a_cancel_of_a_waiting_run_is_noticed_after_a_poke() {
    let script = vec![Script::Fail(ModelFailure::RateLimited, Some(60_000))];
    let world = Setup::new(script).admitted().await;
    let (host, task) = hosted(&world);
    until(&world, RunStatus::Waiting).await;
    world
        .journal
        .command(
            RUN,
            Command::Cancel,
            portolan_core::time::Clock::now(&world.clock),
        )
        .await
        .expect("accepted");
    host.poke();
    until(&world, RunStatus::Cancelled).await;
    host.drain(1_000).await;
    task.await.expect("the sweep ends with the host");
}

#[tokio::test]
async fn a_drained_host_gives_its_runs_to_the_next_one() {
    let world = Setup::new(vec![Script::Hang, Script::Final(json!("ok"))])
        .admitted()
        .await;
    let (host, task) = hosted(&world);
    while world.sends().is_empty() {
        tokio::task::yield_now().await;
    }
    // The call in flight gets its time, and is cut when that is over.
    let draining = host.drain(25_000);
    let mut draining = std::pin::pin!(draining);
    for _ in 0..100 {
        assert!(futures::poll!(&mut draining).is_pending());
        tokio::task::yield_now().await;
    }
    world.clock.advance_ms(25_000);
    draining.await;
    task.await.expect("the sweep ends with the host");
    assert_eq!(world.row().await.owner, None, "the run was not given back");
    assert!(host.reserve().is_none(), "a draining host takes nothing");
    let (next, task) = hosted(&world);
    until(&world, RunStatus::Succeeded).await;
    assert_eq!(world.keys(), ["RUN:llm-1:1", "RUN:llm-1:1"]);
    next.drain(1_000).await;
    task.await.expect("the sweep ends with the host");
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_strands_no_run() {
    let plan: Plan = "claim.committed@1=unknown".parse().expect("a rule");
    let armed = arm_thread(plan, Arc::new(InProcess));
    let world = Setup::new(vec![Script::Final(json!("ok"))]).admitted().await;
    let (host, task) = hosted(&world);
    while armed.hits(Point::ClaimCommitted) == 0 {
        tokio::task::yield_now().await;
    }
    assert!(world.row().await.owner.is_some(), "the claim was committed");
    world.clock.advance_ms(15_000);
    host.poke();
    until(&world, RunStatus::Succeeded).await;
    host.drain(1_000).await;
    task.await.expect("the sweep ends with the host");
}

#[tokio::test]
async fn a_process_that_slept_past_its_leases_goes_on_with_its_runs() {
    let script = vec![Script::Hang];
    let world = Setup::new(script).admitted().await;
    let (host, task) = hosted(&world);
    while world.provider.hung.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let epoch = world.row().await.epoch;
    world.clock.advance_ms(100_000);
    host.poke();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        world.row().await.epoch,
        epoch,
        "it was not claimed from under its drive"
    );
    host.drain(0).await;
    task.await.expect("the sweep ends with the host");
}
