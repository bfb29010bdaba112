//! The lives of a process: each claims the run and drives it until the run ends or the process dies.

use super::world::{RUN, World};
use crate::{
    conformance::{
        observed::{Observed, Outcome},
        stage::Stage,
    },
    kill::KillSwitch,
};
use portolan_core::{
    event::{Event, Recorded},
    failure::{FailureKind, RunFailure},
    ids::{OwnerId, Seq},
};
use portolan_engine::{Launch, drive, drive::StopSwitch, project};
use portolan_journal::{Claim, ClaimRequest, DeadOwners};

/// More lives than any scenario needs: one death, and the end.
const MAX_LIVES: u8 = 4;

pub(super) async fn live_until_the_end(stage: &Stage, world: &World, switch: &KillSwitch) -> Observed {
    if let Err(error) = world.admit(stage).await {
        return Observed::unconfigured(format!("the run was not admitted: {error}"));
    }
    for life in 1..=MAX_LIVES {
        let Some(launch) = claim(world, life).await else {
            break;
        };
        let stop = StopSwitch::default();
        tokio::select! {
            biased;
            end = drive(&world.deps, launch, &stop, |_| {}) => tracing_end(world, &format!("{end:?}")),
            () = switch.killed() => switch.revive(),
        }
    }
    observe(stage, world).await
}

/// Keeps how a life ended, for the report of a run that never ends.
fn tracing_end(world: &World, end: &str) {
    world.steering.note_end(end);
}

async fn claim(world: &World, life: u8) -> Option<Launch> {
    let now = world.deps.clock.now();
    let claim = Claim {
        owner: OwnerId::from_bytes([life; 16]),
        lease_until: now.plus_ms(15_000),
    };
    let request = ClaimRequest {
        claim,
        now,
        max: 1,
        dead: DeadOwners::AllOthers,
    };
    let claimed = world.journal.claim(request).await.ok()?.pop()?;
    Some(Launch {
        run: claimed.run,
        epoch: claimed.epoch,
        redrives: claimed.redrives,
        lease: portolan_engine::Lease::forever(),
        fresh: None,
    })
}

async fn observe(stage: &Stage, world: &World) -> Observed {
    let records = world
        .journal
        .read(RUN, Seq::ZERO, u32::MAX)
        .await
        .unwrap_or_default();
    let usage = match world.journal.run(RUN).await {
        Ok(Some(row)) => row.progress.usage,
        Ok(None) | Err(_) => portolan_core::usage::LoopUsage::default(),
    };
    let trace = match project::trace(&records) {
        Ok(trace) => trace,
        Err(error) => return Observed::unconfigured(format!("there is no trace: {error}")),
    };
    let (outcome, artifacts_unknown) = ending(&records, world);
    let started = records.iter().any(|record| record.kind == "run_started");
    let observed = stage.complete(Observed {
        outcome,
        execution_id: started.then(|| RUN.run.into()),
        usage,
        trace: trace
            .iter()
            .map(|event| (event.kind.name().to_owned(), event.kind.data()))
            .collect(),
        artifacts: project::artifacts(&records).unwrap_or_default(),
        artifacts_unknown,
        workspace_after: world.preparer.files_after(),
        ..Observed::unconfigured("")
    });
    Observed {
        requests: world.steering.first_sends(observed.requests),
        ..observed
    }
}

fn ending(records: &[Recorded], world: &World) -> (Outcome, Option<String>) {
    let broken = |message: String| {
        (
            Outcome::Failed(RunFailure::new(FailureKind::Internal, message)),
            None,
        )
    };
    let violations = world.steering.violations();
    if !violations.is_empty() {
        return broken(violations.join("; "));
    }
    match records.last().map(Recorded::event) {
        Some(Ok(Event::RunSucceeded(ended))) => match serde_json::from_str(ended.output.get()) {
            Ok(value) => (Outcome::Succeeded(value), ended.artifacts_unknown),
            Err(error) => broken(format!("the output cannot be read: {error}")),
        },
        Some(Ok(Event::RunFailed(ended) | Event::RunCancelled(ended))) => {
            (Outcome::Failed(ended.error), ended.artifacts_unknown)
        }
        other => broken(format!(
            "the run did not end: {other:?}; {}",
            world.steering.last_end()
        )),
    }
}
