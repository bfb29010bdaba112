//! Runs as the tests need them.

use portolan_core::{
    ids::{Epoch, OwnerId, RunId, StepId, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{Admission, Append, Claim, NewEvent, Progress, RunRef, RunStatus};

pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

pub(crate) fn run(number: u64) -> RunRef {
    let mut id = [9; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    RunRef {
        tenant: TenantId::from_bytes([1; 16]),
        run: RunId::from_bytes(id),
    }
}

pub(crate) fn event(kind: &str, payload: &[u8]) -> NewEvent {
    NewEvent {
        kind: kind.to_owned().into(),
        step: Some(StepId::llm(1)),
        attempt: None,
        payload: payload.to_vec().into(),
    }
}

/// A run that is owned from the start.
pub(crate) fn admission(run: RunRef) -> Admission {
    Admission {
        run,
        agent: "writer".parse().expect("is a name"),
        agent_version: 1,
        tags: vec!["a".to_owned()],
        queued: event("run_queued", b"{}"),
        reserve: NanoUsd(5),
        idempotency: None,
        claim: Some(Claim {
            owner: OwnerId::from_bytes([3; 16]),
            lease_until: NOW.plus_ms(60_000),
        }),
        at: NOW,
    }
}

/// An append of that many events.
pub(crate) fn append(run: RunRef, events: u8) -> Append {
    Append {
        run,
        epoch: Epoch(1),
        after: None,
        at: NOW,
        active_ms: 1,
        events: (0..events).map(|n| event("step_completed", &[n; 300])).collect(),
        progress: Progress {
            status: RunStatus::Running,
            ..Progress::default()
        },
        advances: true,
        settle: None,
        top_up: None,
        consumed: Vec::new(),
        release: None,
    }
}

/// The append that ends a run.
pub(crate) fn ending(run: RunRef) -> Append {
    let mut append = append(run, 1);
    append.progress.status = RunStatus::Succeeded;
    append
}
