//! Many seeds, on several threads: each by itself, some twice, and what fails made smaller.

use super::{Counts, Outcome, Swarm, Violation, run};
use portolan_core::faults::{Plant, plant};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Every so many seeds, one runs twice.
const TWICE: u64 = 50;

/// How often a failing seed is tried in a smaller form.
const SHRINKS: usize = 200;

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The seeds, in this order.
    pub seeds: Vec<u64>,
    /// Threads.
    pub threads: usize,
}

/// A seed that broke a promise.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What it broke.
    pub violations: Vec<Violation>,
    /// The smallest configuration that still breaks the same.
    pub smallest: Swarm,
}

/// What many seeds came to.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Seeds.
    pub seeds: u64,
    /// Seeds that ran twice and gave the same history.
    pub repeated: u64,
    /// What happened in all of them.
    pub counts: Counts,
    /// Those that failed.
    pub failures: Vec<Failure>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Runs them. `progress` hears how far it is after each.
pub fn campaign(campaign: &Campaign, progress: &(dyn Fn(&Tally) + Sync)) -> Tally {
    let began = Instant::now();
    let (next, tally) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..campaign.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let seed = usize::try_from(place)
                        .ok()
                        .and_then(|place| campaign.seeds.get(place));
                    let Some(seed) = seed else { return };
                    let (outcome, is_repeated) = one(*seed, place);
                    let failure = (!outcome.violations.is_empty()).then(|| shrunk(*seed, outcome.violations));
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.seeds += 1;
                    tally.repeated += u64::from(is_repeated);
                    tally.counts.add(&outcome.counts);
                    tally.failures.extend(failure);
                    tally.elapsed = began.elapsed();
                    progress(&tally);
                }
            });
        }
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What became of a planted bug.
#[derive(Debug, Clone)]
pub struct Hunt {
    /// The bug.
    pub plant: Plant,
    /// Seeds until one broke a promise, and that promise; none did: the bug survived.
    pub found: Option<(u64, Violation)>,
}

/// Plants a bug and runs seed after seed until a rule notices.
pub fn hunt(bug: Plant, from: u64, seeds: u64) -> Hunt {
    let _planted = plant(bug);
    let found = (0..seeds).find_map(|tried| {
        let seed = from.saturating_add(tried);
        let seen = std::panic::catch_unwind(|| run(seed, &Swarm::of(seed), false).violations)
            // An assertion that fires has noticed as well.
            .unwrap_or_else(|_| vec![Violation::new("assertion", "it panicked".to_owned())]);
        let first = seen.into_iter().next()?;
        Some((tried + 1, first))
    });
    Hunt { plant: bug, found }
}

/// The planted bugs that the simulator cannot meet, and what does.
pub const NOT_SIMULATED: &[(Plant, &str)] = &[
    (
        Plant::DivergenceIgnored,
        "configuration is fixed when a run begins, so no simulated request differs; the durable tests alter one",
    ),
    (
        Plant::BatchOutOfOrder,
        "not placed in the code yet: the ledgers of the simulator do not record the order of a batch",
    ),
    (Plant::TakenOverUnraised, "the battery of the stores"),
    (Plant::NulStripped, "the battery of the stores"),
    (Plant::CostWraps, "no simulated call costs that much"),
    (Plant::RefusalKeepsKey, "the battery of the stores"),
    (Plant::ToldBeforeCommit, "the battery of the stores"),
    (Plant::TimerForgotten, "the battery of the stores"),
    (Plant::SettledTwice, "the battery of the stores"),
    (Plant::PageUnbounded, "the battery of the stores"),
    (Plant::SilenceUntold, "a test of the tail on a virtual clock"),
];

/// One seed; every so often twice, because a simulation that does not repeat itself proves nothing.
fn one(seed: u64, place: u64) -> (Outcome, bool) {
    let swarm = Swarm::of(seed);
    let mut outcome = run(seed, &swarm, false);
    let is_repeated = place.is_multiple_of(TWICE);
    if is_repeated {
        let again = run(seed, &swarm, false);
        if again.digest != outcome.digest {
            let detail = format!("the same seed gave {} and {}", outcome.digest, again.digest);
            outcome.violations.push(Violation::new("determinism", detail));
        }
    }
    (outcome, is_repeated)
}

/// Takes away kinds of faults and halves the workload for as long as the same promise breaks.
fn shrunk(seed: u64, violations: Vec<Violation>) -> Failure {
    let promise = violations.first().map(|violation| violation.promise);
    let mut smallest = Swarm::of(seed);
    let mut left = SHRINKS;
    loop {
        let smaller = smallest.smaller().into_iter().find(|(_, swarm)| {
            left = left.saturating_sub(1);
            let outcome = run(seed, swarm, false);
            outcome
                .violations
                .iter()
                .any(|violation| Some(violation.promise) == promise)
        });
        match smaller {
            Some((_, swarm)) if left > 0 => smallest = swarm,
            Some(_) | None => {
                return Failure {
                    seed,
                    violations,
                    smallest,
                };
            }
        }
    }
}
