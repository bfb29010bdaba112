//! Imports: whole or not at all, beside the books, under the tenant that asked.

use super::{
    Verdict, checks,
    fixture::{NOW, World, agent, tenant},
    same,
};
use portolan_core::{
    event::Recorded,
    ids::{Attempt, Epoch, RunId, Seq, StepId},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{
    DeadOwners, Import, Imported, RunFilter, RunRef, ScopeKey,
    export::{FORMAT, Header, Origin},
};

checks! {
    an_import_is_the_run_that_it_was,
    an_import_touches_no_budget_and_nobody_claims_it,
    an_import_of_a_run_that_is_there_changes_nothing,
}

const MONEY: NanoUsd = NanoUsd(1_000_000);

/// A run that ended elsewhere, with payloads that no JSON column would keep.
fn imported(run: RunRef) -> Result<Import, String> {
    let hash = "0".repeat(64);
    let lines: [(&str, Option<StepId>, String); 6] = [
        (
            "run_queued",
            None,
            r#"{"agentName":"writer","agentVersion":3,"input":"\u0000","tags":["a"]}"#.to_owned(),
        ),
        (
            "run_started",
            None,
            r#"{"configured": {},"model":"fake/model","beganAt":"2026-01-01T00:00:00.000Z"}"#.to_owned(),
        ),
        (
            "step_started",
            Some(StepId::llm(1)),
            format!(r#"{{"kind":"llm","name":"fake/model","requestHash":"{hash}"}}"#),
        ),
        (
            "step_completed",
            Some(StepId::llm(1)),
            r#"{"status":"ok","output":{"x" : 1},"costUsd":"0.00025"}"#.to_owned(),
        ),
        ("run_teleported", None, "\u{0}\n".to_owned()),
        ("run_succeeded", None, r#"{"output":1}"#.to_owned()),
    ];
    let events = lines
        .into_iter()
        .zip(1..)
        .map(|((kind, step, payload), seq)| Recorded {
            seq: Seq(seq),
            at: Timestamp(NOW.0 + i64::try_from(seq).unwrap_or_default() * 7_000),
            step,
            attempt: step.map(|_| Attempt::FIRST),
            kind: kind.to_owned(),
            payload: payload.into_bytes(),
        });
    let header = Header {
        format: FORMAT,
        run_id: run.run,
        agent_name: agent("writer"),
        agent_version: 3,
        definition: None,
        epoch: Epoch(4),
        active_ms: 5,
        ended: true,
        events: 6,
        origin: Origin {
            tenant_id: tenant(9),
            build: "another".to_owned(),
        },
    };
    Import::checked(run.tenant, &header, events.collect()).map_err(|error| error.to_string())
}

async fn an_import_is_the_run_that_it_was(world: World) -> Verdict {
    let import = imported(world.run())?;
    let (row, events) = (import.row().clone(), import.events().to_vec());
    same!(world.store.import(import).await, Ok(Imported::Done), "an import");
    same!(world.store.run(row.at).await, Ok(Some(row.clone())), "its row");
    let kept = world.journal(row.at).await?;
    same!(format!("{kept:?}"), format!("{events:?}"), "its journal");
    let listed = world.store.list(row.at.tenant, RunFilter::default(), 10).await;
    same!(listed, Ok(vec![row.clone()]), "the list");
    let elsewhere = RunRef {
        tenant: tenant(2),
        run: row.at.run,
    };
    same!(world.store.run(elsewhere).await, Ok(None), "for another tenant");
    Ok(())
}

async fn an_import_touches_no_budget_and_nobody_claims_it(world: World) -> Verdict {
    let run = world.run();
    let scopes = [ScopeKey::Tenant, ScopeKey::Agent(agent("writer"))];
    for scope in scopes.clone() {
        let set = world.store.set_scope_limit(run.tenant, scope, Some(MONEY)).await;
        same!(set, Ok(()), "a limit");
    }
    let before = [
        world.store.scope_books(run.tenant, scopes[0].clone()).await,
        world.store.scope_books(run.tenant, scopes[1].clone()).await,
    ];
    same!(
        world.store.import(imported(run)?).await,
        Ok(Imported::Done),
        "an import"
    );
    for (scope, before) in scopes.into_iter().zip(before) {
        same!(
            world.store.scope_books(run.tenant, scope).await,
            before,
            "the books"
        );
    }
    let claimed = world.claim(1, NOW, 10, DeadOwners::AllOthers).await?;
    same!(claimed.len(), 0, "claimed runs");
    Ok(())
}

async fn an_import_of_a_run_that_is_there_changes_nothing(world: World) -> Verdict {
    let run = world.running().await?;
    let before = (
        world.store.run(run).await,
        format!("{:?}", world.journal(run).await?),
    );
    same!(
        world.store.import(imported(run)?).await,
        Ok(Imported::Exists),
        "an import over a run"
    );
    let after = (
        world.store.run(run).await,
        format!("{:?}", world.journal(run).await?),
    );
    same!(after, before, "the run that was there");
    let foreign = RunRef {
        tenant: tenant(2),
        run: RunId::from_bytes(*run.run.as_bytes()),
    };
    same!(
        world.store.import(imported(foreign)?).await,
        Ok(Imported::Done),
        "the same id of another tenant"
    );
    Ok(())
}
