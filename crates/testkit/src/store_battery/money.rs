//! Budgets: exact gates, moves between the books, and reservations that end with their run.

use super::{
    Verdict, checks,
    fixture::{World, agent, event, key, progress, said, tenant},
    same,
};
use portolan_core::{ids::Seq, money::NanoUsd};
use portolan_journal::{Admission, Admitted, Append, Appended, RunStatus, ScopeKey, Settlement, TopUp};

checks! {
    an_admission_holds_its_money_in_every_scope,
    a_full_scope_refuses_and_leaves_no_trace,
    a_used_up_scope_refuses_even_what_is_free,
    concurrent_admissions_meet_the_limit_exactly,
    concurrent_top_ups_meet_the_limit_exactly,
    a_settlement_moves_the_books,
    a_refused_top_up_keeps_the_events_before_it,
    a_top_up_of_nothing_is_granted,
    an_end_frees_what_was_held,
    books_that_open_begin_with_what_is_held,
    without_a_limit_there_are_no_books,
}

fn writer() -> ScopeKey {
    ScopeKey::Agent(agent("writer"))
}

fn reserving(world: &World, amount: u64) -> Admission {
    Admission {
        reserve: NanoUsd(amount),
        ..World::admission(world.run())
    }
}

fn top_up(amount: u64) -> Option<TopUp> {
    Some(TopUp {
        amount: NanoUsd(amount),
        events: vec![event("step_started", b"{}")],
        progress: progress(RunStatus::Running),
    })
}

async fn an_admission_holds_its_money_in_every_scope(world: World) -> Verdict {
    world.limit(ScopeKey::Tenant, 100).await?;
    world.limit(writer(), 50).await?;
    let admission = reserving(&world, 30);
    let run = admission.run;
    world.admit(admission).await?;
    same!(
        world.books(ScopeKey::Tenant).await?,
        (100, 0, 30),
        "the tenant's books"
    );
    same!(world.books(writer()).await?, (50, 0, 30), "the agent's books");
    same!(world.row(run).await?.reserved, NanoUsd(30), "what the run holds");
    let other = Admission {
        agent: agent("other"),
        ..reserving(&world, 20)
    };
    world.admit(other).await?;
    same!(
        world.books(ScopeKey::Tenant).await?,
        (100, 0, 50),
        "the tenant's books"
    );
    same!(
        world.books(writer()).await?,
        (50, 0, 30),
        "the books of the agent that did not run"
    );
    let foreign = Admission {
        reserve: NanoUsd(1_000),
        ..World::admission(world.run_of(tenant(2)))
    };
    same!(
        world.admit(foreign).await?,
        Admitted::Created { epoch: None },
        "another tenant"
    );
    Ok(())
}

async fn a_full_scope_refuses_and_leaves_no_trace(world: World) -> Verdict {
    world.limit(ScopeKey::Tenant, 100).await?;
    world.limit(writer(), 50).await?;
    let refused = Admission {
        idempotency: Some(key("k", "body")),
        ..reserving(&world, 51)
    };
    let run = refused.run;
    same!(
        world.admit(refused).await?,
        Admitted::OverBudget { scope: writer() },
        "the agent's limit"
    );
    let refused = reserving(&world, 101);
    let scope = ScopeKey::Tenant;
    same!(
        world.admit(refused).await?,
        Admitted::OverBudget { scope },
        "the tenant's limit, which is asked first"
    );
    same!(said(world.store.run(run).await)?, None, "the run");
    same!(world.journal(run).await?.len(), 0, "its events");
    same!(world.books(ScopeKey::Tenant).await?, (100, 0, 0), "the books");
    let again = Admission {
        idempotency: Some(key("k", "other body")),
        ..reserving(&world, 50)
    };
    same!(
        world.admit(again).await?,
        Admitted::Created { epoch: None },
        "the key, which is free"
    );
    Ok(())
}

async fn a_used_up_scope_refuses_even_what_is_free(world: World) -> Verdict {
    world.limit(ScopeKey::Tenant, 10).await?;
    world.admit(reserving(&world, 10)).await?;
    let refused = world.admit(reserving(&world, 0)).await?;
    same!(
        refused,
        Admitted::OverBudget {
            scope: ScopeKey::Tenant
        },
        "the answer"
    );
    Ok(())
}

async fn concurrent_admissions_meet_the_limit_exactly(world: World) -> Verdict {
    world.limit(ScopeKey::Tenant, 100).await?;
    world.limit(writer(), 1_000).await?;
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move { world.admit(reserving(&world, 7)).await })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        match task.await.map_err(|error| error.to_string())?? {
            Admitted::Created { .. } => admitted += 1,
            other => same!(
                other,
                Admitted::OverBudget {
                    scope: ScopeKey::Tenant
                },
                "a refusal"
            ),
        }
    }
    same!(admitted, 14, "admissions of 7 within 100");
    same!(
        world.books(ScopeKey::Tenant).await?,
        (100, 0, 98),
        "the tenant's books"
    );
    same!(world.books(writer()).await?, (1_000, 0, 98), "the agent's books");
    Ok(())
}

async fn concurrent_top_ups_meet_the_limit_exactly(world: World) -> Verdict {
    world.limit(writer(), 100).await?;
    let mut runs = Vec::new();
    for _ in 0..64 {
        runs.push(world.running().await?);
    }
    let tasks: Vec<_> = runs
        .into_iter()
        .map(|run| {
            let world = world.clone();
            let append = Append {
                top_up: top_up(9),
                ..World::piece(run)
            };
            tokio::spawn(async move { world.append(append).await })
        })
        .collect();
    let mut granted = 0;
    for task in tasks {
        match task.await.map_err(|error| error.to_string())?? {
            Appended::Committed { .. } => granted += 1,
            Appended::TopUpRefused { scope, .. } => same!(scope, writer(), "the full scope"),
            Appended::Fenced | Appended::Elsewhere => return Err("a top-up was not judged".to_owned()),
        }
    }
    same!(granted, 11, "top-ups of 9 within 100");
    same!(world.books(writer()).await?, (100, 0, 99), "the books");
    Ok(())
}

async fn a_settlement_moves_the_books(world: World) -> Verdict {
    world.limit(ScopeKey::Tenant, 100).await?;
    let run = world.running_for(reserving(&world, 30)).await?;
    let settle = |reserved, actual| {
        Some(Settlement {
            reserved: NanoUsd(reserved),
            actual: NanoUsd(actual),
        })
    };
    let (last_seq, _) = world
        .commit(Append {
            events: vec![event("step_completed", b"{}")],
            settle: settle(30, 12),
            top_up: top_up(20),
            ..World::piece(run)
        })
        .await?;
    same!(last_seq, Seq(4), "the place of the top-up's event");
    same!(world.books(ScopeKey::Tenant).await?, (100, 12, 20), "the books");
    let row = world.row(run).await?;
    same!(
        (row.reserved, row.settled),
        (NanoUsd(20), NanoUsd(12)),
        "the run's money"
    );
    world
        .commit(Append {
            settle: settle(20, 95),
            ..World::piece(run)
        })
        .await?;
    same!(
        world.books(ScopeKey::Tenant).await?,
        (100, 107, 0),
        "the books after a dear call"
    );
    let row = world.row(run).await?;
    same!(
        (row.reserved, row.settled),
        (NanoUsd(0), NanoUsd(107)),
        "the run's money"
    );
    Ok(())
}

async fn a_refused_top_up_keeps_the_events_before_it(world: World) -> Verdict {
    world.limit(ScopeKey::Tenant, 100).await?;
    let run = world.running_for(reserving(&world, 90)).await?;
    let mut dear = top_up(11).ok_or("a top-up")?;
    dear.progress.recoveries = 99;
    let appended = world
        .append(Append {
            events: vec![event("step_completed", b"{}")],
            top_up: Some(dear),
            ..World::piece(run)
        })
        .await?;
    let wanted = Appended::TopUpRefused {
        last_seq: Seq(3),
        inbox: Vec::new(),
        scope: ScopeKey::Tenant,
    };
    same!(appended, wanted, "the answer");
    let kinds = ["run_queued", "run_started", "step_completed"].map(str::to_owned);
    same!(world.kinds(run).await?, kinds.to_vec(), "the journal");
    same!(
        world.row(run).await?.progress,
        progress(RunStatus::Running),
        "the fold"
    );
    same!(world.books(ScopeKey::Tenant).await?, (100, 0, 90), "the books");
    world
        .commit(Append {
            top_up: top_up(10),
            ..World::piece(run)
        })
        .await?;
    same!(
        world.books(ScopeKey::Tenant).await?,
        (100, 0, 100),
        "the books, full to the limit"
    );
    Ok(())
}

async fn a_top_up_of_nothing_is_granted(world: World) -> Verdict {
    world.limit(ScopeKey::Tenant, 10).await?;
    let run = world.running_for(reserving(&world, 10)).await?;
    let (last_seq, _) = world
        .commit(Append {
            top_up: top_up(0),
            ..World::piece(run)
        })
        .await?;
    same!(last_seq, Seq(3), "the place of its event");
    Ok(())
}

async fn an_end_frees_what_was_held(world: World) -> Verdict {
    world.limit(ScopeKey::Tenant, 100).await?;
    for status in [RunStatus::Succeeded, RunStatus::Failed, RunStatus::Cancelled] {
        let run = world.running_for(reserving(&world, 60)).await?;
        same!(world.books(ScopeKey::Tenant).await?.2, 60, "what is held");
        world
            .commit(Append {
                progress: progress(status),
                settle: Some(Settlement {
                    reserved: NanoUsd(10),
                    actual: NanoUsd(5),
                }),
                ..World::ending(run)
            })
            .await?;
        same!(
            world.books(ScopeKey::Tenant).await?.2,
            0,
            "what is held after {status:?}"
        );
        same!(
            world.row(run).await?.reserved,
            NanoUsd::ZERO,
            "what the run holds"
        );
    }
    same!(world.books(ScopeKey::Tenant).await?.1, 15, "what was spent");
    Ok(())
}

async fn books_that_open_begin_with_what_is_held(world: World) -> Verdict {
    let early = world.running_for(reserving(&world, 40)).await?;
    world.limit(ScopeKey::Tenant, 100).await?;
    same!(world.books(ScopeKey::Tenant).await?, (100, 0, 40), "the books");
    world.admit(reserving(&world, 30)).await?;
    world.commit(World::ending(early)).await?;
    same!(
        world.books(ScopeKey::Tenant).await?,
        (100, 0, 30),
        "the books after the early run"
    );
    world.limit(ScopeKey::Tenant, 50).await?;
    same!(
        world.books(ScopeKey::Tenant).await?,
        (50, 0, 30),
        "the books under another limit"
    );
    Ok(())
}

async fn without_a_limit_there_are_no_books(world: World) -> Verdict {
    same!(
        said(world.store.scope_books(tenant(1), ScopeKey::Tenant).await)?,
        None,
        "at first"
    );
    world.limit(ScopeKey::Tenant, 10).await?;
    said(
        world
            .store
            .set_scope_limit(tenant(1), ScopeKey::Tenant, None)
            .await,
    )?;
    same!(
        said(world.store.scope_books(tenant(1), ScopeKey::Tenant).await)?,
        None,
        "afterwards"
    );
    let admitted = world.admit(reserving(&world, 1_000)).await?;
    same!(admitted, Admitted::Created { epoch: None }, "an admission");
    Ok(())
}
