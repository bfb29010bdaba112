//! Bounds in money and tokens, and the size of outputs.

use super::world::{RUN, Script, Setup};
use portolan_core::{
    event::Event, failure::FailureKind, limits::LimitKind, model::ModelFailure, money::NanoUsd, price::Price,
    usage::TokenUsage,
};
use portolan_journal::{JournalStore, ScopeKey};
use serde_json::json;

const PRICE: Price = Price {
    input_usd_per_million: NanoUsd(1_000_000_000),
    output_usd_per_million: NanoUsd(2_000_000_000),
    cached_input_usd_per_million: None,
    max_output_tokens: None,
};
const USAGE: TokenUsage = TokenUsage {
    tokens_in: 100,
    tokens_out: 10,
    tokens_cached: 0,
    tokens_reasoning: 0,
};

fn priced(script: Vec<Script>) -> Setup {
    Setup {
        price: Some(PRICE),
        usage: Some(USAGE),
        ..Setup::new(script)
    }
}

#[tokio::test]
async fn a_call_settles_at_what_it_cost_and_the_books_balance() {
    let world = priced(vec![
        Script::Call("nobody", json!({})),
        Script::Final(json!("ok")),
    ])
    .admitted()
    .await;
    let limit = Some(NanoUsd(1_000_000_000));
    world
        .journal
        .set_scope_limit(RUN.tenant, ScopeKey::Tenant, limit)
        .await
        .expect("set");
    world.drive(1).await;
    let row = world.row().await;
    let each = NanoUsd(100 * 1_000 + 10 * 2_000);
    assert_eq!(row.progress.cost, NanoUsd(2 * each.0));
    assert_eq!((row.settled, row.reserved), (row.progress.cost, NanoUsd::ZERO));
    let books = world
        .journal
        .scope_books(RUN.tenant, ScopeKey::Tenant)
        .await
        .expect("read")
        .expect("books");
    assert_eq!(
        (books.settled, books.reserved),
        (row.progress.cost, NanoUsd::ZERO)
    );
}

#[tokio::test]
async fn a_budget_without_room_ends_the_run_before_the_call() {
    let world = priced(vec![Script::Final(json!("ok"))]).admitted().await;
    world
        .journal
        .set_scope_limit(RUN.tenant, ScopeKey::Tenant, Some(NanoUsd(1_000)))
        .await
        .expect("set");
    world.drive(1).await;
    assert_eq!(world.failure().await.kind, FailureKind::BudgetExhausted);
    assert!(world.sends().is_empty());
    assert_eq!(world.row().await.reserved, NanoUsd::ZERO);
}

#[tokio::test]
async fn the_runs_own_cost_bound_is_judged_with_the_worst_case() {
    let script = vec![Script::Call("nobody", json!({})), Script::Final(json!("ok"))];
    // Room for the worst case of the first call, not for that of a second one after it.
    let world = priced(script)
        .with(json!({"limits": {"maxCostUsd": "0.0109", "maxOutputTokens": 4096}}))
        .admitted()
        .await;
    world.drive(1).await;
    let failure = world.failure().await;
    assert_eq!(
        (failure.kind, failure.limit),
        (FailureKind::LimitExhausted, Some(LimitKind::MaxCostUsd))
    );
    assert_eq!(world.sends().len(), 1);
}

#[tokio::test]
async fn the_runs_token_bound_needs_no_price() {
    let world = Setup {
        usage: Some(USAGE),
        ..Setup::new(Vec::new())
    }
    .with(json!({"limits": {"maxTokens": 4_000, "maxOutputTokens": 3_990}}))
    .admitted()
    .await;
    world.drive(1).await;
    assert_eq!(world.failure().await.limit, Some(LimitKind::MaxTokens));
    assert!(world.sends().is_empty());
}

#[tokio::test]
async fn a_bill_that_nobody_knows_settles_at_what_was_reserved() {
    let script = vec![Script::Fail(ModelFailure::InDoubt, None); 4];
    let world = priced(script).admitted().await;
    world.drive_through_time(1).await;
    let row = world.row().await;
    assert!(row.progress.cost_is_estimate);
    assert!(row.progress.cost > NanoUsd::ZERO);
    assert_eq!((row.settled, row.reserved), (row.progress.cost, NanoUsd::ZERO));
}

#[tokio::test]
async fn an_unknown_price_is_unknown_and_not_zero() {
    let world = Setup {
        usage: Some(USAGE),
        ..Setup::new(vec![Script::Final(json!("ok"))])
    }
    .admitted()
    .await;
    world.drive(1).await;
    assert!(world.row().await.progress.cost_unknown);
}

#[tokio::test]
async fn a_large_output_is_cut_for_the_model_and_kept_whole() {
    let large = "é".repeat(900_000);
    let script = vec![
        Script::Call("editor", json!({"operation": "read", "path": "big.txt"})),
        Script::Final(json!("ok")),
    ];
    let members = json!({
        "tools": ["editor"],
        "workspace": {"kind": "memory", "files": {"big.txt": large}, "allow": ["read"]},
    });
    let world = Setup::new(script).with(members).admitted().await;
    world.drive(1).await;
    let mut whole = None;
    for record in world.records().await {
        match record.event().expect("decodes") {
            Event::StepCompleted(done) if record.step.is_some_and(|step| step.to_string() == "tool-1") => {
                let output = done.output.expect("an output");
                assert!(output.get().len() <= 1 << 20, "{}", output.get().len());
                assert!(output.get().contains("[cut: "));
            }
            Event::ArtifactCreated(artifact) => whole = artifact.digest,
            _ => {}
        }
    }
    let kept = world
        .deps
        .blobs
        .get(whole.expect("an artifact"))
        .await
        .expect("kept");
    assert_eq!(
        serde_json::from_slice::<String>(&kept).expect("JSON"),
        "é".repeat(900_000)
    );
}
