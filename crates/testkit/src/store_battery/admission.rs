//! Admission and idempotency keys.

use super::{
    Verdict, checks,
    fixture::{NOW, World, agent, claim_of, event, key, said, tenant},
    same,
};
use portolan_core::{
    ids::{Epoch, Seq},
    time::Timestamp,
};
use portolan_journal::{Admission, Admitted, DeadOwners, RunFilter, RunStatus};

checks! {
    an_admitted_run_is_there_with_its_first_event,
    an_admission_may_claim_its_run,
    the_same_request_again_is_the_same_run,
    another_request_under_the_key_is_refused,
    keys_belong_to_their_tenant,
    a_key_can_be_looked_up_while_it_is_held,
    a_key_is_free_again_when_it_expired,
    of_many_equal_requests_one_makes_a_run,
    many_admissions_at_once_all_count,
}

async fn an_admitted_run_is_there_with_its_first_event(world: World) -> Verdict {
    let run = world.run();
    let admission = Admission {
        agent: agent("a.b-c_1"),
        agent_version: 7,
        tags: vec!["nightly".to_owned(), "\u{0}\"é🦀".to_owned()],
        queued: event("run_queued", b"{\"input\":1}"),
        ..World::admission(run)
    };
    same!(
        world.admit(admission).await?,
        Admitted::Created { epoch: None },
        "the answer"
    );
    let row = world.row(run).await?;
    same!(row.at, run, "the run");
    same!(row.agent, agent("a.b-c_1"), "its agent");
    same!(row.agent_version, 7, "its version");
    same!(
        row.tags,
        vec!["nightly".to_owned(), "\u{0}\"é🦀".to_owned()],
        "its tags"
    );
    same!(row.created_at, NOW, "its admission");
    same!(row.progress.status, RunStatus::Queued, "its status");
    same!(
        (row.last_seq, row.epoch, row.owner),
        (Seq(1), Epoch(0), None),
        "its place and owner"
    );
    let journal = world.journal(run).await?;
    same!(journal.len(), 1, "events");
    same!((journal[0].seq, journal[0].at), (Seq(1), NOW), "the first event");
    same!(journal[0].payload, b"{\"input\":1}".to_vec(), "its payload");
    Ok(())
}

async fn an_admission_may_claim_its_run(world: World) -> Verdict {
    let run = world.run();
    let admission = Admission {
        claim: Some(claim_of(1)),
        ..World::admission(run)
    };
    let admitted = world.admit(admission).await?;
    same!(
        admitted,
        Admitted::Created {
            epoch: Some(Epoch(1))
        },
        "the answer"
    );
    let row = world.row(run).await?;
    same!(row.owner, Some(claim_of(1).owner), "the owner");
    same!(row.lease_until, Some(claim_of(1).lease_until), "the lease");
    let claimed = world.claim(2, NOW, 10, DeadOwners::LeaseExpired).await?;
    same!(claimed, vec![], "what another worker gets");
    Ok(())
}

async fn the_same_request_again_is_the_same_run(world: World) -> Verdict {
    let first = world.run();
    let second = world.run();
    let keyed = |run| Admission {
        idempotency: Some(key("k", "body")),
        ..World::admission(run)
    };
    world.admit(keyed(first)).await?;
    same!(
        world.admit(keyed(second)).await?,
        Admitted::Replayed(first.run),
        "the replay"
    );
    same!(said(world.store.run(second).await)?, None, "the second run");
    Ok(())
}

async fn another_request_under_the_key_is_refused(world: World) -> Verdict {
    let first = world.run();
    let second = world.run();
    let keyed = |run, body| Admission {
        idempotency: Some(key("k", body)),
        ..World::admission(run)
    };
    world.admit(keyed(first, "body")).await?;
    same!(
        world.admit(keyed(second, "other")).await?,
        Admitted::KeyReused,
        "the answer"
    );
    same!(said(world.store.run(second).await)?, None, "the second run");
    Ok(())
}

async fn keys_belong_to_their_tenant(world: World) -> Verdict {
    for number in [1, 2] {
        let admission = Admission {
            idempotency: Some(key("k", &format!("body of {number}"))),
            ..World::admission(world.run_of(tenant(number)))
        };
        let admitted = world.admit(admission).await?;
        same!(admitted, Admitted::Created { epoch: None }, "tenant {number}");
    }
    Ok(())
}

async fn a_key_can_be_looked_up_while_it_is_held(world: World) -> Verdict {
    let claim = key("k", "body");
    let run = world.run();
    let look_up = async |number, name: &str, at| {
        said(world.store.idempotent(tenant(number), name.to_owned(), at).await)
    };
    same!(look_up(1, "k", NOW).await?, None, "before");
    world
        .admit(Admission {
            idempotency: Some(claim.clone()),
            ..World::admission(run)
        })
        .await?;
    let held = Some((claim.fingerprint, run.run));
    same!(look_up(1, "k", NOW).await?, held, "while it is held");
    same!(look_up(1, "other", NOW).await?, None, "another key");
    same!(look_up(2, "k", NOW).await?, None, "another tenant");
    same!(look_up(1, "k", claim.expires_at).await?, None, "when it expired");
    Ok(())
}

async fn a_key_is_free_again_when_it_expired(world: World) -> Verdict {
    let expires = key("k", "body").expires_at;
    let keyed = |run, body, at| Admission {
        idempotency: Some(key("k", body)),
        at,
        ..World::admission(run)
    };
    let first = world.run();
    world.admit(keyed(first, "body", NOW)).await?;
    let just_before = Timestamp(expires.0 - 1);
    let replayed = world.admit(keyed(world.run(), "body", just_before)).await?;
    same!(replayed, Admitted::Replayed(first.run), "just before");
    let admitted = world.admit(keyed(world.run(), "other", expires)).await?;
    same!(admitted, Admitted::Created { epoch: None }, "when it expires");
    Ok(())
}

async fn of_many_equal_requests_one_makes_a_run(world: World) -> Verdict {
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move {
                let admission = Admission {
                    idempotency: Some(key("k", "body")),
                    ..World::admission(world.run())
                };
                let run = admission.run.run;
                world.admit(admission).await.map(|admitted| (run, admitted))
            })
        })
        .collect();
    let (mut made, mut heard) = (Vec::new(), Vec::new());
    for task in tasks {
        match task.await.map_err(|error| error.to_string())?? {
            (run, Admitted::Created { .. }) => made.push(run),
            (_, Admitted::Replayed(run)) => heard.push(run),
            (_, other) => return Err(format!("an equal request was answered with {other:?}")),
        }
    }
    same!((made.len(), heard.len()), (1, 31), "runs and replays");
    same!(
        heard.iter().all(|run| *run == made[0]),
        true,
        "that all replays name the run"
    );
    let rows = said(world.store.list(tenant(1), RunFilter::default(), 100).await)?;
    same!(rows.len(), 1, "runs of the tenant");
    Ok(())
}

async fn many_admissions_at_once_all_count(world: World) -> Verdict {
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move { world.queued().await })
        })
        .collect();
    for task in tasks {
        let run = task.await.map_err(|error| error.to_string())??;
        same!(
            world.kinds(run).await?,
            vec!["run_queued".to_owned()],
            "a journal"
        );
    }
    let rows = said(world.store.list(tenant(1), RunFilter::default(), 1_000).await)?;
    same!(rows.len(), 100, "runs");
    Ok(())
}
