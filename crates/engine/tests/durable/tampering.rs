//! A journal that was altered is noticed: the run ends, and never goes another way silently.

use super::world::{RUN, Script, Setup, World};
use portolan_core::{
    event::Recorded,
    failure::FailureKind,
    faults::{Plant, plant},
};
use serde_json::json;

async fn died_after_a_step() -> World {
    let script = vec![
        Script::Call("nobody", json!({"n": 1})),
        Script::Hang,
        Script::Final(json!("ok")),
    ];
    let members = json!({"instructions": ["Be brief."]});
    let world = Setup::new(script).with(members).admitted().await;
    world.drive_and_die(1).await;
    world
}

/// Alters the payload of the first event of that kind for which the change changes something.
fn alter(world: &World, kind: &str, change: impl Fn(&str) -> String) {
    let altered = world.journal.tamper(RUN, |records: &mut Vec<Recorded>| {
        let record = records
            .iter_mut()
            .find(|record| record.kind == kind)
            .expect("such an event");
        let before = String::from_utf8(record.payload.clone()).expect("text");
        let after = change(&before);
        assert_ne!(before, after, "nothing was altered");
        record.payload = after.into_bytes();
    });
    assert!(altered);
}

#[tokio::test]
async fn an_altered_instruction_diverges() {
    let world = died_after_a_step().await;
    alter(&world, "run_started", |payload| {
        payload.replace("Be brief.", "Be broad.")
    });
    world.drive(2).await;
    assert_eq!(world.failure().await.kind, FailureKind::ReplayDiverged);
    assert_eq!(world.sends().len(), 2, "nothing is sent after the divergence");
}

#[tokio::test]
async fn a_planted_indifference_to_divergence_is_noticed() {
    let world = died_after_a_step().await;
    alter(&world, "run_started", |payload| {
        payload.replace("Be brief.", "Be broad.")
    });
    let sent = world.sends().len();
    let _planted = plant(Plant::DivergenceIgnored);
    world.drive(2).await;
    assert!(
        world.sends().len() > sent,
        "the run went another way, and paid for it"
    );
}

#[tokio::test]
async fn an_altered_answer_diverges() {
    let world = died_after_a_step().await;
    alter(&world, "step_completed", |payload| {
        payload.replace("\"n\":1", "\"n\":2")
    });
    world.drive(2).await;
    assert_eq!(world.failure().await.kind, FailureKind::ReplayDiverged);
}

#[tokio::test]
async fn every_single_altered_byte_of_an_answer_is_noticed_or_harmless() {
    let probe = died_after_a_step().await;
    let kind = "step_completed";
    let length = probe
        .records()
        .await
        .into_iter()
        .find(|r| r.kind == kind)
        .expect("an answer")
        .payload
        .len();
    for place in 0..length {
        let world = died_after_a_step().await;
        alter(&world, kind, |payload| {
            let mut bytes = payload.as_bytes().to_vec();
            bytes[place] ^= 1;
            String::from_utf8(bytes).expect("ASCII stays ASCII")
        });
        world.drive(2).await;
        let failure = world.failure().await;
        let noticed = matches!(
            failure.kind,
            FailureKind::ReplayDiverged | FailureKind::Quarantined
        );
        assert!(noticed, "byte {place}: {failure:?}");
    }
}

#[tokio::test]
async fn a_journal_with_a_gap_is_refused() {
    let world = died_after_a_step().await;
    world.journal.tamper(RUN, |records| drop(records.remove(2)));
    world.drive(2).await;
    let failure = world.failure().await;
    assert_eq!(failure.kind, FailureKind::Quarantined, "{failure:?}");
}
