//! The inbox: commands are durable, once, until they are answered.

use super::{
    Verdict, checks,
    fixture::{NOW, World, event, said},
    same,
};
use portolan_journal::{Append, Command, Commanded};

checks! {
    a_command_waits_until_it_is_consumed,
    the_same_command_again_is_one_entry,
    a_command_is_answered_by_state,
    an_end_empties_the_inbox,
    the_hub_hears_of_commands,
}

async fn a_command_waits_until_it_is_consumed(world: World) -> Verdict {
    let run = world.running().await?;
    same!(
        said(world.store.command(run, Command::Cancel, NOW).await)?,
        Commanded::Accepted,
        "the answer"
    );
    let inbox = said(world.store.inbox(run).await)?;
    same!(inbox.len(), 1, "entries");
    same!(
        (&inbox[0].command, inbox[0].at),
        (&Command::Cancel, NOW),
        "the entry"
    );
    let row = world.row(run).await?;
    same!(row.cancel_requested_at, Some(NOW), "since when a cancel is open");
    same!(row.shown_status(), "cancelling", "the status that is shown");
    let (_, heard) = world
        .commit(Append {
            events: vec![event("step_completed", b"{}")],
            ..World::piece(run)
        })
        .await?;
    same!(heard, inbox, "what an append tells");
    let (_, heard) = world
        .commit(Append {
            events: vec![event("run_cancel_requested", b"{}")],
            consumed: vec![inbox[0].id],
            ..World::piece(run)
        })
        .await?;
    same!(heard, vec![], "what is left");
    same!(said(world.store.inbox(run).await)?, vec![], "the inbox");
    same!(world.row(run).await?.cancel_requested_at, None, "the open cancel");
    Ok(())
}

async fn the_same_command_again_is_one_entry(world: World) -> Verdict {
    let run = world.running().await?;
    for ms in [5, 9, 1] {
        let commanded = said(world.store.command(run, Command::Cancel, NOW.plus_ms(ms)).await)?;
        same!(commanded, Commanded::Accepted, "the answer");
    }
    let inbox = said(world.store.inbox(run).await)?;
    same!(inbox.len(), 1, "entries");
    same!(inbox[0].at, NOW.plus_ms(5), "the time of the first");
    world
        .commit(Append {
            consumed: vec![inbox[0].id],
            ..World::piece(run)
        })
        .await?;
    said(world.store.command(run, Command::Cancel, NOW).await)?;
    let again = said(world.store.inbox(run).await)?;
    same!(again.len(), 1, "entries after the first was consumed");
    same!(
        again[0].id != inbox[0].id,
        true,
        "that a later entry has another number"
    );
    Ok(())
}

async fn a_command_is_answered_by_state(world: World) -> Verdict {
    let queued = world.queued().await?;
    let ended = world.running().await?;
    world.commit(World::ending(ended)).await?;
    let cases = [
        (queued, Commanded::Accepted),
        (ended, Commanded::AlreadyTerminal),
        (world.run(), Commanded::NotFound),
    ];
    for (run, wanted) in cases {
        let answer = said(world.store.command(run, Command::Cancel, NOW).await)?;
        same!(answer, wanted, "the answer");
    }
    same!(
        said(world.store.inbox(ended).await)?,
        vec![],
        "the inbox of a run that ended"
    );
    Ok(())
}

async fn an_end_empties_the_inbox(world: World) -> Verdict {
    let run = world.running().await?;
    said(world.store.command(run, Command::Cancel, NOW).await)?;
    let (_, left) = world.commit(World::ending(run)).await?;
    same!(left, vec![], "what is left");
    same!(said(world.store.inbox(run).await)?, vec![], "the inbox");
    same!(world.row(run).await?.cancel_requested_at, None, "the open cancel");
    Ok(())
}

async fn the_hub_hears_of_commands(world: World) -> Verdict {
    let run = world.running().await?;
    let signals = world.store.hub().follow(run);
    said(world.store.command(run, Command::Cancel, NOW).await)?;
    same!(signals.borrow().commands, 1, "commands that were heard of");
    Ok(())
}
