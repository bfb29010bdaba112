//! One simulation: begin, suffer, heal, judge.

use super::{
    check::{self, Judged, Violation},
    database::{self, Database},
    executor::{Executor, Ran},
    fate::Fate,
    history::{Counts, History},
    process::Processes,
    provider::{self, Provider, price_of_a_call},
    swarm::Swarm,
    time::Time,
    users::{Users, tenant},
};
use crate::random::Random;
use futures::FutureExt as _;
use portolan_core::{digest::Digest, event::Event, failure::FailureKind, money::NanoUsd};
use portolan_journal::{JournalStore as _, RunRef, RunStatus, ScopeKey, audit::AuditSource as _};
use std::sync::Arc;

/// How long faults go on at least and at most, in simulated microseconds.
const SUFFER_US: (u64, u64) = (15_000_000, 180_000_000);

/// What everything may take once the faults have stopped: the wall time of a run, the longest wait that a provider asks for,
/// a lease and a sweep, for as many generations of runs as there may be places.
const HEAL_US: u64 = 900_000_000;

/// What became of a seed.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How much happened.
    pub counts: Counts,
    /// The digest of the history.
    pub digest: Digest,
    /// Broken promises.
    pub violations: Vec<Violation>,
    /// The history, if it was asked for.
    pub text: Vec<String>,
}

/// Runs a simulation.
pub fn run(seed: u64, swarm: &Swarm, keeps_text: bool) -> Outcome {
    let (executor, time, random) = (Executor::default(), Time::default(), Random::new(seed));
    let history = History::new(time.clone(), keeps_text);
    let world = || (executor.clone(), time.clone(), random.clone());
    let database = Database::new(
        world(),
        history.clone(),
        database::Faults {
            refused_permille: swarm.refused_permille,
            lost_permille: swarm.lost_permille,
            stalled_permille: swarm.stalled_permille,
            hints_lost_permille: swarm.hints_lost_permille,
        },
    );
    let provider = Provider::new(
        world(),
        history.clone(),
        provider::Faults {
            cut_permille: swarm.cut_permille,
            hung_permille: swarm.hung_permille,
            failed_permille: swarm.failed_permille,
            unsent_permille: swarm.unsent_permille,
            nonsense_permille: swarm.nonsense_permille,
        },
        swarm.honours_keys,
    );
    open_budgets(swarm, &database);
    let processes = Processes::new(
        swarm,
        seed,
        world(),
        history.clone(),
        Arc::clone(&database),
        provider,
    );
    for number in 0..processes.len() {
        processes.start(number);
    }
    let users = Users::begin(swarm, &processes);
    let fate = Fate::begin(swarm, &processes);

    let (least, most) = SUFFER_US;
    let suffered = || time.now_us() >= least && users.are_done();
    executor.run(&time, &random, most, suffered);
    history.note(format_args!("the faults stop"));
    history.inner().healed_us = Some(time.now_us());
    fate.heal();
    let until = time.now_us().saturating_add(HEAL_US);
    let ran = executor.run(&time, &random, until, || users.are_done() && all_ended(&history));

    let mut violations = Vec::new();
    if ran != Ran::Done {
        violations.push(unfinished(&history, &users, ran));
    }
    let judged = collect(swarm, &history, &database, &mut violations);
    check::all(&judged, &mut violations);
    let mut counts = judged.inner.counts;
    counts.runs = judged.inner.acknowledged.len() as u64;
    counts.simulated_ms = time.now_us() / 1_000;
    count_ends(&judged, &mut counts);
    // It holds the history.
    drop(judged);
    Outcome {
        counts,
        digest: history.digest(),
        violations,
        text: history.inner().text.take().unwrap_or_default(),
    }
}

fn open_budgets(swarm: &Swarm, database: &Database) {
    for number in 0..swarm.tenants {
        if swarm.budget_calls > 0 {
            let limit = NanoUsd(price_of_a_call().0.saturating_mul(swarm.budget_calls));
            let set = database
                .journal
                .set_scope_limit(tenant(number), ScopeKey::Tenant, Some(limit));
            assert!(
                matches!(set.now_or_never(), Some(Ok(()))),
                "memory answers at once"
            );
        }
    }
}

fn all_ended(history: &History) -> bool {
    let inner = history.inner();
    inner
        .commits
        .values()
        .all(|commits| commits.last().is_some_and(|last| last.status.is_terminal()))
}

fn unfinished(history: &History, users: &Users, ran: Ran) -> Violation {
    let inner = history.inner();
    let open: Vec<String> = inner
        .commits
        .iter()
        .filter_map(|(run, commits)| {
            let last = commits.last().filter(|last| !last.status.is_terminal())?;
            Some(format!("{} is {}", run.run, last.status.name()))
        })
        .collect();
    let detail = format!(
        "{} runs have not ended after the faults have ({ran:?}, users done: {}): {}",
        open.len(),
        users.are_done(),
        open.join(", ")
    );
    Violation::new("P3", detail)
}

/// Everything that is known at the end.
fn collect<'a>(
    swarm: &'a Swarm,
    history: &'a History,
    database: &Database,
    violations: &mut Vec<Violation>,
) -> Judged<'a> {
    let runs: Vec<RunRef> = history.inner().commits.keys().copied().collect();
    let mut dossiers = Vec::new();
    for run in runs {
        match database.journal.dossier(run).now_or_never() {
            Some(Ok(Some(dossier))) => dossiers.push(dossier),
            other => violations.push(Violation::new("P1", format!("{} is gone: {other:?}", run.run))),
        }
    }
    let scopes = database.journal.scopes().now_or_never();
    Judged {
        swarm,
        inner: history.inner(),
        dossiers,
        scopes: scopes.and_then(Result::ok).unwrap_or_default(),
    }
}

fn count_ends(judged: &Judged<'_>, counts: &mut Counts) {
    for dossier in &judged.dossiers {
        counts.steps += dossier
            .events
            .iter()
            .filter(|event| event.kind == "step_completed")
            .count() as u64;
        counts.succeeded += u64::from(dossier.row.progress.status == RunStatus::Succeeded);
        let last = dossier.events.last().and_then(|event| event.event().ok());
        if let Some(Event::RunFailed(ended)) = last {
            counts.quarantined += u64::from(ended.error.kind == FailureKind::Quarantined);
        }
    }
}
