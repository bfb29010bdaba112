//! Claims, leases and re-drives.

use super::{
    Verdict, checks,
    fixture::{NOW, World, claim_of, event, owner, progress, said, tenant},
    same,
};
use portolan_core::{
    ids::{Epoch, RunId},
    time::Timestamp,
};
use portolan_journal::{
    Append, Appended, Claimed, Command, DeadOwners, Release, RenewRequest, Renewed, RunRef, RunStatus,
};

checks! {
    the_oldest_come_first_of_all_tenants,
    queued_runs_are_claimed_once,
    concurrent_claims_share_nothing,
    an_expired_lease_frees_a_run,
    all_others_are_dead_to_the_holder_of_the_lock,
    what_the_holder_of_the_lock_does_not_renew_it_gets_again,
    waiting_runs_are_claimed_when_due,
    a_cancel_wakes_a_waiting_run,
    an_owner_that_dies_before_it_goes_on_strands_nothing,
    ended_runs_are_never_claimed,
    re_drives_are_counted_until_the_run_gets_on,
    a_claim_fences_the_owner_before,
    released_runs_are_claimed_at_once,
    a_stale_release_changes_nothing,
    a_renewal_extends_and_tells_what_is_lost,
    a_renewal_tells_what_is_commanded,
}

fn runs(claimed: &[Claimed]) -> Vec<RunId> {
    claimed.iter().map(|claimed| claimed.run.run).collect()
}

fn later(ms: u64) -> Timestamp {
    NOW.plus_ms(ms)
}

/// Puts a running run to sleep.
async fn sleep(world: &World, run: RunRef, wake_at: Option<Timestamp>) -> Verdict {
    let append = Append {
        events: vec![event("run_waiting", b"{}")],
        progress: progress(RunStatus::Waiting),
        release: Some(Release { wake_at }),
        ..World::piece(run)
    };
    world.commit(append).await.map(drop)
}

async fn the_oldest_come_first_of_all_tenants(world: World) -> Verdict {
    let mut admitted = Vec::new();
    for number in [2, 1, 3, 2, 1, 3, 1] {
        let run = world.run_of(tenant(number));
        world.admit(World::admission(run)).await?;
        admitted.push(run.run);
    }
    let first = world.claim(1, NOW, 4, DeadOwners::LeaseExpired).await?;
    same!(runs(&first), admitted[..4].to_vec(), "the first four");
    let rest = world.claim(1, NOW, 10, DeadOwners::LeaseExpired).await?;
    same!(runs(&rest), admitted[4..].to_vec(), "the rest");
    Ok(())
}

async fn queued_runs_are_claimed_once(world: World) -> Verdict {
    let run = world.queued().await?;
    let claimed = world.claim(1, NOW, 10, DeadOwners::LeaseExpired).await?;
    let wanted = Claimed {
        run,
        epoch: Epoch(1),
        redrives: 0,
    };
    same!(claimed, vec![wanted], "the claim");
    let row = world.row(run).await?;
    same!(
        (row.owner, row.lease_until),
        (Some(owner(1)), Some(later(60_000))),
        "the hold"
    );
    let again = world.claim(1, NOW, 10, DeadOwners::LeaseExpired).await?;
    same!(again, vec![], "what is left");
    Ok(())
}

async fn concurrent_claims_share_nothing(world: World) -> Verdict {
    for _ in 0..60 {
        world.queued().await?;
    }
    let tasks: Vec<_> = (1..=10)
        .map(|number| {
            let world = world.clone();
            tokio::spawn(async move { world.claim(number, NOW, 7, DeadOwners::LeaseExpired).await })
        })
        .collect();
    let mut claimed = Vec::new();
    for task in tasks {
        claimed.extend(runs(&task.await.map_err(|error| error.to_string())??));
    }
    same!(claimed.len(), 60, "claims");
    claimed.sort_unstable();
    claimed.dedup();
    same!(claimed.len(), 60, "different runs");
    Ok(())
}

async fn an_expired_lease_frees_a_run(world: World) -> Verdict {
    let run = world.running().await?;
    let until = claim_of(1).lease_until;
    let early = world
        .claim(2, Timestamp(until.0 - 1), 10, DeadOwners::LeaseExpired)
        .await?;
    same!(early, vec![], "before the lease ends");
    let claimed = world.claim(2, until, 10, DeadOwners::LeaseExpired).await?;
    let wanted = Claimed {
        run,
        epoch: Epoch(2),
        redrives: 1,
    };
    same!(claimed, vec![wanted], "when it ends");
    Ok(())
}

async fn all_others_are_dead_to_the_holder_of_the_lock(world: World) -> Verdict {
    let run = world.running().await?;
    let own = world.claim(1, NOW, 10, DeadOwners::AllOthers).await?;
    same!(own, vec![], "what its owner gets");
    let claimed = world.claim(2, NOW, 10, DeadOwners::AllOthers).await?;
    same!(runs(&claimed), vec![run.run], "what another one gets");
    Ok(())
}

async fn what_the_holder_of_the_lock_does_not_renew_it_gets_again(world: World) -> Verdict {
    let run = world.running().await?;
    let until = claim_of(1).lease_until;
    let early = world
        .claim(1, Timestamp(until.0 - 1), 10, DeadOwners::AllOthers)
        .await?;
    same!(early, vec![], "before the lease ends");
    let claimed = world.claim(1, until, 10, DeadOwners::AllOthers).await?;
    same!(runs(&claimed), vec![run.run], "when it ends");
    Ok(())
}

async fn waiting_runs_are_claimed_when_due(world: World) -> Verdict {
    let timed = world.running().await?;
    let untimed = world.running().await?;
    sleep(&world, timed, Some(later(1_000))).await?;
    sleep(&world, untimed, None).await?;
    same!(world.row(timed).await?.wake_at, Some(later(1_000)), "the time");
    same!(world.row(timed).await?.owner, None, "the owner");
    for dead in [DeadOwners::LeaseExpired, DeadOwners::AllOthers] {
        same!(
            world.claim(2, later(999), 10, dead).await?,
            vec![],
            "before its time"
        );
    }
    let claimed = world.claim(2, later(1_000), 10, DeadOwners::AllOthers).await?;
    let wanted = Claimed {
        run: timed,
        epoch: Epoch(2),
        redrives: 0,
    };
    same!(claimed, vec![wanted], "at its time, and nobody else");
    world
        .commit(Append {
            epoch: Epoch(2),
            events: vec![event("run_resumed", b"{}")],
            ..World::piece(timed)
        })
        .await?;
    same!(world.row(timed).await?.wake_at, None, "the time once it goes on");
    Ok(())
}

async fn a_cancel_wakes_a_waiting_run(world: World) -> Verdict {
    let run = world.running().await?;
    sleep(&world, run, None).await?;
    said(world.store.command(run, Command::Cancel, NOW).await)?;
    let claimed = world.claim(2, NOW, 10, DeadOwners::LeaseExpired).await?;
    same!(runs(&claimed), vec![run.run], "the claim");
    Ok(())
}

async fn an_owner_that_dies_before_it_goes_on_strands_nothing(world: World) -> Verdict {
    let run = world.running().await?;
    sleep(&world, run, Some(later(1_000))).await?;
    world.claim(2, later(1_000), 10, DeadOwners::LeaseExpired).await?;
    let dead = later(61_000);
    same!(
        world
            .claim(3, Timestamp(dead.0 - 1), 10, DeadOwners::LeaseExpired)
            .await?,
        vec![],
        "while it lives"
    );
    let claimed = world.claim(3, dead, 10, DeadOwners::LeaseExpired).await?;
    let wanted = Claimed {
        run,
        epoch: Epoch(3),
        redrives: 1,
    };
    same!(claimed, vec![wanted], "what its successor gets, counted");
    said(world.store.release(vec![(run, Epoch(3))]).await)?;
    let claimed = world.claim(4, dead, 10, DeadOwners::LeaseExpired).await?;
    same!(runs(&claimed), vec![run.run], "what is given back unstarted");
    Ok(())
}

async fn ended_runs_are_never_claimed(world: World) -> Verdict {
    for status in [RunStatus::Succeeded, RunStatus::Failed, RunStatus::Cancelled] {
        let run = world.running().await?;
        world
            .commit(Append {
                progress: progress(status),
                ..World::ending(run)
            })
            .await?;
    }
    for dead in [DeadOwners::LeaseExpired, DeadOwners::AllOthers] {
        same!(
            world.claim(2, later(1 << 40), 10, dead).await?,
            vec![],
            "the claim"
        );
    }
    Ok(())
}

async fn re_drives_are_counted_until_the_run_gets_on(world: World) -> Verdict {
    let run = world.queued().await?;
    for (round, wanted) in [(1, 0), (2, 1), (3, 2)] {
        let claimed = world.claim(round, NOW, 1, DeadOwners::AllOthers).await?;
        same!(claimed[0].redrives, wanted, "claim {round}");
    }
    for _ in 0..2 {
        world
            .commit(Append {
                epoch: Epoch(3),
                ..World::piece(run)
            })
            .await?;
    }
    same!(
        world.row(run).await?.redrives,
        2,
        "after appends that do not get on"
    );
    world
        .commit(Append {
            epoch: Epoch(3),
            advances: true,
            ..World::piece(run)
        })
        .await?;
    same!(world.row(run).await?.redrives, 0, "after one that does");
    let claimed = world.claim(4, NOW, 1, DeadOwners::AllOthers).await?;
    same!(
        (claimed[0].redrives, claimed[0].epoch),
        (1, Epoch(4)),
        "the next claim"
    );
    Ok(())
}

async fn a_claim_fences_the_owner_before(world: World) -> Verdict {
    let run = world.running().await?;
    world.claim(2, NOW, 10, DeadOwners::AllOthers).await?;
    same!(
        world.append(World::piece(run)).await?,
        Appended::Fenced,
        "the owner before"
    );
    world
        .commit(Append {
            epoch: Epoch(2),
            ..World::piece(run)
        })
        .await
        .map(drop)
}

async fn released_runs_are_claimed_at_once(world: World) -> Verdict {
    let given = world.running().await?;
    let appended = world.running().await?;
    said(world.store.release(vec![(given, Epoch(1))]).await)?;
    world
        .commit(Append {
            release: Some(Release::default()),
            ..World::piece(appended)
        })
        .await?;
    for run in [given, appended] {
        let row = world.row(run).await?;
        same!((row.owner, row.lease_until), (None, None), "the hold");
    }
    let claimed = world.claim(2, NOW, 10, DeadOwners::LeaseExpired).await?;
    same!(runs(&claimed), vec![given.run, appended.run], "the claim");
    Ok(())
}

async fn a_stale_release_changes_nothing(world: World) -> Verdict {
    let run = world.running().await?;
    let before = world.row(run).await?;
    said(
        world
            .store
            .release(vec![(run, Epoch(9)), (world.run(), Epoch(1))])
            .await,
    )?;
    same!(world.row(run).await?, before, "the row");
    Ok(())
}

async fn a_renewal_extends_and_tells_what_is_lost(world: World) -> Verdict {
    let held = world.running().await?;
    let taken = world.running().await?;
    let ended = world.running().await?;
    let unknown = world.run();
    world.commit(World::ending(ended)).await?;
    let mut claim = claim_of(1);
    claim.lease_until = later(120_000);
    let request = RenewRequest {
        claim,
        runs: vec![
            (held, Epoch(1), 750),
            (taken, Epoch(7), 0),
            (ended, Epoch(1), 0),
            (unknown, Epoch(1), 0),
        ],
    };
    let renewed = said(world.store.renew(request).await)?;
    let wanted = Renewed {
        lost: vec![taken, ended, unknown],
        commanded: Vec::new(),
    };
    same!(renewed, wanted, "the answer");
    let row = world.row(held).await?;
    same!(
        (row.lease_until, row.active_ms),
        (Some(later(120_000)), 750),
        "lease and active time"
    );
    same!(
        world.row(taken).await?.lease_until,
        Some(later(60_000)),
        "the lease that is not its own"
    );
    let mut stranger = claim_of(2);
    stranger.lease_until = later(180_000);
    let request = RenewRequest {
        claim: stranger,
        runs: vec![(held, Epoch(1), 0)],
    };
    same!(
        said(world.store.renew(request).await)?.lost,
        vec![held],
        "what a stranger may renew"
    );
    let request = RenewRequest {
        claim,
        runs: vec![(held, Epoch(1), 5)],
    };
    said(world.store.renew(request).await)?;
    same!(
        world.row(held).await?.active_ms,
        750,
        "active time, which never goes back"
    );
    Ok(())
}

async fn a_renewal_tells_what_is_commanded(world: World) -> Verdict {
    let quiet = world.running().await?;
    let commanded = world.running().await?;
    said(world.store.command(commanded, Command::Cancel, NOW).await)?;
    let request = RenewRequest {
        claim: claim_of(1),
        runs: vec![(quiet, Epoch(1), 0), (commanded, Epoch(1), 0)],
    };
    let renewed = said(world.store.renew(request).await)?;
    let wanted = Renewed {
        lost: Vec::new(),
        commanded: vec![commanded],
    };
    same!(renewed, wanted, "the answer");
    Ok(())
}
