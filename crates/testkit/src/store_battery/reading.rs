//! Reads: pages, filters, cursors, and the walls between tenants.

use super::{
    Verdict, checks,
    fixture::{NOW, World, agent, event, said, tenant},
    same,
};
use portolan_core::{
    ids::{Epoch, RunId, Seq},
    money::NanoUsd,
};
use portolan_journal::{
    Admission, Append, Appended, Command, Commanded, RunFilter, RunRef, RunStatus, ScopeKey,
};

checks! {
    journals_are_read_in_pages,
    a_page_is_no_heavier_than_its_reader_bears,
    heads_tell_how_far_runs_are,
    a_glance_shows_the_row_with_its_first_and_its_last_event,
    lists_show_the_newest_first_and_go_on_from_a_cursor,
    lists_are_filtered,
    another_tenant_sees_and_changes_nothing,
}

async fn journals_are_read_in_pages(world: World) -> Verdict {
    let run = world.running().await?;
    world
        .commit(Append {
            events: (0..8_u8).map(|n| event("step_completed", &[n])).collect(),
            ..World::piece(run)
        })
        .await?;
    for (after, max, wanted) in [
        (0, 3, 1..4),
        (3, 4, 4..8),
        (9, 100, 10..11),
        (10, 5, 0..0),
        (99, 5, 0..0),
        (0, 0, 0..0),
    ] {
        let page = said(world.store.read(run, Seq(after), max).await)?;
        let places: Vec<u64> = page.iter().map(|event| event.seq.0).collect();
        same!(places, wanted.collect::<Vec<u64>>(), "{max} after {after}");
    }
    same!(
        world.journal(world.run()).await?.len(),
        0,
        "events of a run that is not there"
    );
    Ok(())
}

async fn a_page_is_no_heavier_than_its_reader_bears(world: World) -> Verdict {
    let run = world.running().await?;
    let payload = |bytes: usize| event("step_completed", &vec![b'x'; bytes]);
    let mut events: Vec<_> = [400, 500, 2_000, 100].map(payload).into();
    events.extend((0..20).map(|_| payload(10)));
    world
        .commit(Append {
            events,
            ..World::piece(run)
        })
        .await?;
    for (after, max, max_bytes, wanted) in [
        (2, 100, 899, 3..4),
        (2, 100, 900, 3..5),
        (4, 100, 1_000, 5..6),
        (4, 100, 0, 5..6),
        (5, 100, 1_000, 6..27),
        (5, 17, 1_000, 6..23),
        (5, 8, 1_000, 6..14),
        (5, 0, 1_000, 0..0),
        (26, 100, 1_000, 0..0),
    ] {
        let page = said(world.store.read_page(run, Seq(after), max, max_bytes).await)?;
        let places: Vec<u64> = page.iter().map(|event| event.seq.0).collect();
        same!(
            places,
            wanted.collect::<Vec<u64>>(),
            "{max} of {max_bytes} bytes after {after}"
        );
    }
    Ok(())
}

async fn heads_tell_how_far_runs_are(world: World) -> Verdict {
    let (queued, running, ended) = (
        world.queued().await?,
        world.running().await?,
        world.running().await?,
    );
    world.commit(World::ending(ended)).await?;
    let missing = world.run();
    let foreign = RunRef {
        tenant: tenant(2),
        run: running.run,
    };
    let mut heads = said(
        world
            .store
            .heads(vec![missing, ended, foreign, running, queued])
            .await,
    )?;
    heads.sort_unstable_by_key(|head| head.at);
    let found: Vec<_> = heads
        .iter()
        .map(|head| (head.at, head.last_seq.0, head.ended))
        .collect();
    same!(
        found,
        vec![(queued, 1, false), (running, 2, false), (ended, 3, true)],
        "the heads"
    );
    same!(said(world.store.heads(Vec::new()).await)?, vec![], "no heads");
    Ok(())
}

async fn a_glance_shows_the_row_with_its_first_and_its_last_event(world: World) -> Verdict {
    let queued = world.queued().await?;
    let run = world.running().await?;
    let events = (0..3_u8).map(|n| event("step_completed", &[n])).collect();
    world
        .commit(Append {
            events,
            ..World::piece(run)
        })
        .await?;
    for (run, expected_last) in [(queued, 1), (run, 5)] {
        let glance = said(world.store.glance(run).await)?.ok_or("a run that is there is not seen")?;
        let row = said(world.store.run(run).await)?.ok_or("a run that is there has no row")?;
        same!(glance.row, row, "the row");
        same!(
            (glance.first.seq, glance.last.seq),
            (Seq(1), Seq(expected_last)),
            "the first and the last event"
        );
    }
    same!(
        said(world.store.glance(world.run()).await)?.is_none(),
        true,
        "a run that is not there"
    );
    Ok(())
}

fn ids(rows: &[portolan_journal::RunRow]) -> Vec<RunId> {
    rows.iter().map(|row| row.at.run).collect()
}

async fn lists_show_the_newest_first_and_go_on_from_a_cursor(world: World) -> Verdict {
    let mut admitted = Vec::new();
    for _ in 0..7 {
        admitted.push(world.queued().await?.run);
    }
    admitted.reverse();
    let mut filter = RunFilter::default();
    for page in admitted.chunks(3) {
        let rows = said(world.store.list(tenant(1), filter.clone(), 3).await)?;
        same!(ids(&rows), page.to_vec(), "a page");
        filter.before = page.last().copied();
    }
    same!(
        said(world.store.list(tenant(1), filter, 3).await)?,
        vec![],
        "the page after the last"
    );
    Ok(())
}

async fn lists_are_filtered(world: World) -> Verdict {
    let plain = world.queued().await?.run;
    let tagged = Admission {
        tags: vec!["a".to_owned(), "b \"c\"".to_owned()],
        agent: agent("other"),
        at: NOW.plus_ms(10),
        ..World::admission(world.run())
    };
    let other = tagged.run.run;
    world.admit(tagged).await?;
    let ended = world.running().await?;
    world.commit(World::ending(ended)).await?;
    let ended = ended.run;

    let all = RunFilter::default;
    let cases = [
        (
            RunFilter {
                status: Some(RunStatus::Succeeded),
                ..all()
            },
            vec![ended],
        ),
        (
            RunFilter {
                status: Some(RunStatus::Queued),
                ..all()
            },
            vec![other, plain],
        ),
        (
            RunFilter {
                status: Some(RunStatus::Waiting),
                ..all()
            },
            vec![],
        ),
        (
            RunFilter {
                agent: Some(agent("other")),
                ..all()
            },
            vec![other],
        ),
        (
            RunFilter {
                agent: Some(agent("nobody")),
                ..all()
            },
            vec![],
        ),
        (
            RunFilter {
                tag: Some("b \"c\"".to_owned()),
                ..all()
            },
            vec![other],
        ),
        (
            RunFilter {
                tag: Some("b".to_owned()),
                ..all()
            },
            vec![],
        ),
        (
            RunFilter {
                since: Some(NOW.plus_ms(10)),
                ..all()
            },
            vec![other],
        ),
        (
            RunFilter {
                until: Some(NOW.plus_ms(10)),
                ..all()
            },
            vec![ended, plain],
        ),
        (
            RunFilter {
                status: Some(RunStatus::Queued),
                agent: Some(agent("writer")),
                before: Some(other),
                ..all()
            },
            vec![plain],
        ),
    ];
    for (filter, wanted) in cases {
        let rows = said(world.store.list(tenant(1), filter.clone(), 100).await)?;
        same!(ids(&rows), wanted, "{filter:?}");
    }
    Ok(())
}

async fn another_tenant_sees_and_changes_nothing(world: World) -> Verdict {
    world.limit(ScopeKey::Tenant, 100).await?;
    let run = world.running().await?;
    said(world.store.command(run, Command::Cancel, NOW).await)?;
    let before = (world.row(run).await?, world.kinds(run).await?);

    let foreign = RunRef {
        tenant: tenant(2),
        run: run.run,
    };
    same!(said(world.store.run(foreign).await)?, None, "the row");
    same!(world.journal(foreign).await?.len(), 0, "events");
    same!(said(world.store.inbox(foreign).await)?, vec![], "the inbox");
    same!(
        said(world.store.list(tenant(2), RunFilter::default(), 10).await)?,
        vec![],
        "the list"
    );
    same!(
        said(world.store.scope_books(tenant(2), ScopeKey::Tenant).await)?,
        None,
        "the books"
    );
    same!(
        said(world.store.command(foreign, Command::Cancel, NOW).await)?,
        Commanded::NotFound,
        "a command"
    );
    same!(
        world.append(World::ending(foreign)).await?,
        Appended::Fenced,
        "an append"
    );
    said(world.store.release(vec![(foreign, Epoch(1))]).await)?;
    said(
        world
            .store
            .set_scope_limit(tenant(2), ScopeKey::Tenant, Some(NanoUsd(1)))
            .await,
    )?;

    same!(
        (world.row(run).await?, world.kinds(run).await?),
        before,
        "what the owner sees"
    );
    same!(world.books(ScopeKey::Tenant).await?.0, 100, "the owner's limit");
    Ok(())
}
