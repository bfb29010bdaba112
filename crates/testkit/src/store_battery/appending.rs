//! Appends: density, fencing, neighbours, and the hub.

use super::{
    Verdict, checks,
    fixture::{NOW, World, event, progress, said, step},
    same,
};
use portolan_core::{
    ids::{Attempt, Epoch, Seq, StepId},
    usage::{LoopUsage, TokenUsage},
};
use portolan_journal::{Append, Appended, Progress, RunStatus};

checks! {
    places_are_dense_and_kept_with_their_steps,
    the_fold_moves_with_the_events,
    an_append_that_lands_late_finds_the_journal_longer,
    a_stale_generation_changes_nothing,
    a_run_that_is_not_there_is_fenced,
    nothing_follows_the_end,
    an_end_gives_the_run_up,
    neighbours_of_a_fenced_append_commit,
    appends_of_many_runs_at_once_stay_dense,
    any_bytes_survive,
    the_hub_hears_of_a_commit_and_of_no_refusal,
}

async fn places_are_dense_and_kept_with_their_steps(world: World) -> Verdict {
    let run = world.running().await?;
    let mut wanted = vec!["run_queued".to_owned(), "run_started".to_owned()];
    for count in 0..12_u32 {
        let kinds = ["step_started", "step_completed", "step_failed"];
        let events = (0..count).map(|n| step(kinds[n as usize % 3], StepId::tool(n + 1)));
        let (last_seq, _) = world
            .commit(Append {
                events: events.collect(),
                ..World::piece(run)
            })
            .await?;
        wanted.extend((0..count).map(|n| kinds[n as usize % 3].to_owned()));
        same!(
            last_seq,
            Seq(wanted.len() as u64),
            "the last place after {count} more"
        );
    }
    same!(world.kinds(run).await?, wanted, "the kinds");
    let journal = world.journal(run).await?;
    let third = &journal[4];
    same!(
        (third.step, third.attempt),
        (Some(StepId::tool(2)), Some(Attempt::FIRST)),
        "a step"
    );
    same!(
        (journal[1].step, journal[1].attempt),
        (None, None),
        "an event without one"
    );
    same!(
        world.row(run).await?.last_seq,
        Seq(wanted.len() as u64),
        "the place on the row"
    );
    Ok(())
}

async fn the_fold_moves_with_the_events(world: World) -> Verdict {
    let run = world.running().await?;
    let fold = Progress {
        status: RunStatus::Running,
        usage: LoopUsage {
            model_calls: 3,
            tool_calls: 2,
            result_rejections: 1,
        },
        tokens: TokenUsage {
            tokens_in: u64::MAX,
            ..TokenUsage::default()
        },
        cost_unknown: true,
        recoveries: 4,
        model: Some("test/model".into()),
        started_at: Some(NOW),
        ..Progress::default()
    };
    world
        .commit(Append {
            active_ms: 500,
            progress: fold.clone(),
            ..World::piece(run)
        })
        .await?;
    world
        .commit(Append {
            active_ms: 400,
            progress: fold.clone(),
            ..World::piece(run)
        })
        .await?;
    let row = world.row(run).await?;
    same!(row.progress, fold, "the fold");
    same!(row.active_ms, 500, "active time, which never goes back");
    Ok(())
}

async fn an_append_that_lands_late_finds_the_journal_longer(world: World) -> Verdict {
    let run = world.running().await?;
    let append = |events: &[&str], status| Append {
        after: Some(Seq(2)),
        active_ms: 7,
        advances: true,
        events: events.iter().map(|kind| event(kind, b"{}")).collect(),
        progress: progress(status),
        ..World::piece(run)
    };
    let (last_seq, _) = world
        .commit(append(&["step_started"], RunStatus::Running))
        .await?;
    same!(last_seq, Seq(3), "the place after the first");
    let before = (world.row(run).await?, world.kinds(run).await?);
    for late in [
        append(&["step_started"], RunStatus::Running),
        append(&["run_waiting"], RunStatus::Waiting),
        append(&["run_succeeded"], RunStatus::Succeeded),
    ] {
        same!(
            world.append(late).await?,
            Appended::Elsewhere,
            "the same place again"
        );
    }
    let ahead = Append {
        after: Some(Seq(9)),
        ..append(&["step_completed"], RunStatus::Running)
    };
    same!(
        world.append(ahead).await?,
        Appended::Elsewhere,
        "a place that is not reached"
    );
    same!(
        (world.row(run).await?, world.kinds(run).await?),
        before,
        "what is stored"
    );
    let next = Append {
        after: Some(Seq(3)),
        ..append(&["step_completed"], RunStatus::Running)
    };
    same!(world.commit(next).await?.0, Seq(4), "the place after the second");
    Ok(())
}

async fn a_stale_generation_changes_nothing(world: World) -> Verdict {
    let run = world.running().await?;
    let before = (world.row(run).await?, world.kinds(run).await?);
    for epoch in [0, 2, u64::MAX] {
        for append in [World::ending(run), World::piece(run)] {
            let stale = Append {
                epoch: Epoch(epoch),
                active_ms: 9,
                advances: true,
                ..append
            };
            same!(world.append(stale).await?, Appended::Fenced, "generation {epoch}");
        }
    }
    same!(
        (world.row(run).await?, world.kinds(run).await?),
        before,
        "what is stored"
    );
    Ok(())
}

async fn a_run_that_is_not_there_is_fenced(world: World) -> Verdict {
    let nobody = World::piece(world.run());
    same!(world.append(nobody).await?, Appended::Fenced, "the answer");
    Ok(())
}

async fn nothing_follows_the_end(world: World) -> Verdict {
    for status in [RunStatus::Succeeded, RunStatus::Failed, RunStatus::Cancelled] {
        let run = world.running().await?;
        world
            .commit(Append {
                progress: progress(status),
                ..World::ending(run)
            })
            .await?;
        let before = (world.row(run).await?, world.kinds(run).await?);
        for append in [World::piece(run), World::ending(run)] {
            same!(world.append(append).await?, Appended::Fenced, "after {status:?}");
        }
        same!(
            (world.row(run).await?, world.kinds(run).await?),
            before,
            "what is stored"
        );
    }
    Ok(())
}

async fn an_end_gives_the_run_up(world: World) -> Verdict {
    let run = world.running().await?;
    world.commit(World::ending(run)).await?;
    let row = world.row(run).await?;
    same!(row.progress.status, RunStatus::Succeeded, "the status");
    same!(
        (row.owner, row.lease_until, row.wake_at),
        (None, None, None),
        "the hold"
    );
    Ok(())
}

async fn neighbours_of_a_fenced_append_commit(world: World) -> Verdict {
    let mut runs = Vec::new();
    for _ in 0..40 {
        runs.push(world.running().await?);
    }
    let tasks: Vec<_> = runs
        .iter()
        .enumerate()
        .map(|(number, run)| {
            let stale = number % 3 == 0;
            let append = Append {
                epoch: Epoch(if stale { 5 } else { 1 }),
                events: vec![event("step_started", b"{}"), event("step_completed", b"{}")],
                ..World::piece(*run)
            };
            let world = world.clone();
            (
                stale,
                *run,
                tokio::spawn(async move { world.append(append).await }),
            )
        })
        .collect();
    for (stale, run, task) in tasks {
        let appended = task.await.map_err(|error| error.to_string())??;
        same!(
            matches!(appended, Appended::Fenced),
            stale,
            "whether it is fenced"
        );
        let events = world.kinds(run).await?.len();
        same!(events, if stale { 2 } else { 4 }, "events of a run");
    }
    Ok(())
}

async fn appends_of_many_runs_at_once_stay_dense(world: World) -> Verdict {
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move {
                let run = world.running().await?;
                for number in 1..=20 {
                    let (last_seq, _) = world
                        .commit(Append {
                            events: vec![
                                step("step_started", StepId::llm(number)),
                                step("step_completed", StepId::llm(number)),
                            ],
                            advances: true,
                            ..World::piece(run)
                        })
                        .await?;
                    same!(last_seq, Seq(2 + u64::from(number) * 2), "the place");
                }
                world.commit(World::ending(run)).await?;
                same!(world.kinds(run).await?.len(), 43, "events");
                Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(|error| error.to_string())??;
    }
    Ok(())
}

async fn any_bytes_survive(world: World) -> Verdict {
    let run = world.running().await?;
    let all: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..1 << 20_u32)
        .map(|n: u32| n.to_le_bytes()[1] ^ n.to_le_bytes()[0])
        .collect();
    let payloads: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"\0".to_vec(),
        b"{\"a\":\"\\u0000\"}\0tail".to_vec(),
        b"\xed\xa0\x80".to_vec(),
        "🦀 ﷽ é".as_bytes().to_vec(),
        b"'; DROP TABLE runs; --".to_vec(),
        all,
        large,
    ];
    let kinds = [
        "step_completed",
        "run_teleported",
        "kind with \u{0} and 'quotes'",
        "42",
    ];
    let events = payloads.iter().zip(kinds.iter().cycle());
    world
        .commit(Append {
            events: events.map(|(payload, kind)| event(kind, payload)).collect(),
            ..World::piece(run)
        })
        .await?;
    let journal = said(world.store.read(run, Seq(2), 100).await)?;
    same!(journal.len(), payloads.len(), "events");
    for ((event, payload), kind) in journal.iter().zip(&payloads).zip(kinds.iter().cycle()) {
        same!(event.kind.as_str(), *kind, "a kind");
        same!(
            event.payload == *payload,
            true,
            "that a payload of {} bytes came back",
            payload.len()
        );
    }
    Ok(())
}

async fn the_hub_hears_of_a_commit_and_of_no_refusal(world: World) -> Verdict {
    let run = world.run();
    let signals = world.store.hub().follow(run);
    world.admit(World::admission(run)).await?;
    same!(signals.borrow().last_seq, Seq(1), "after the admission");
    let running = world.running().await?;
    let signals = world.store.hub().follow(running);
    let stale = Append {
        epoch: Epoch(3),
        ..World::ending(running)
    };
    world.append(stale).await?;
    same!(*signals.borrow(), Default::default(), "after a fenced append");
    world
        .commit(Append {
            events: vec![event("step_started", b"{}")],
            ..World::piece(running)
        })
        .await?;
    same!(
        (signals.borrow().last_seq, signals.borrow().ended),
        (Seq(3), false),
        "after a commit"
    );
    world.commit(World::ending(running)).await?;
    same!(
        (signals.borrow().last_seq, signals.borrow().ended),
        (Seq(4), true),
        "after the end"
    );
    Ok(())
}
