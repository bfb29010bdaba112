//! That simulations repeat themselves, and that the rules hold for some of them.

use super::{Campaign, NOT_SIMULATED, Swarm, campaign, hunt, run};
use portolan_core::faults::Plant;

#[test]
fn a_seed_gives_the_same_history_again_and_another_seed_another_one() {
    let swarm = Swarm::of(3);
    let [first, again, other] = [3, 3, 4].map(|seed| run(seed, &swarm, false));
    assert_eq!(first.digest, again.digest);
    assert_ne!(first.digest, other.digest);
    assert!(
        first.counts.runs > 0 && first.counts.commits > first.counts.runs,
        "{:?}",
        first.counts
    );
}

#[test]
fn some_seeds_keep_every_promise_under_faults() {
    let plan = Campaign {
        seeds: (1..=30).collect(),
        threads: 2,
    };
    let tally = campaign(&plan, &|_| {});
    assert!(tally.failures.is_empty(), "{:?}", tally.failures);
    assert_eq!((tally.seeds, tally.repeated), (30, 1));
    assert!(tally.counts.faults() > 300, "ten a seed: {:?}", tally.counts);
    assert!(
        tally.counts.succeeded * 2 > tally.counts.runs,
        "{:?}",
        tally.counts
    );
}

#[test]
fn a_planted_bug_is_found_and_is_gone_afterwards() {
    let hunted = hunt(Plant::UsageOnlyOfSuccess, 1, 50);
    let (seeds, violation) = hunted.found.expect("it breaks a promise");
    assert_eq!(violation.promise, "P20");
    let same = run(seeds, &Swarm::of(seeds), false);
    assert!(same.violations.is_empty(), "{:?}", same.violations);
}

#[test]
fn what_cannot_be_simulated_is_listed_once_and_says_where_it_is_found() {
    let mut names: Vec<&str> = NOT_SIMULATED.iter().map(|(plant, _)| plant.name()).collect();
    assert!(NOT_SIMULATED.iter().all(|(_, reason)| !reason.is_empty()));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), NOT_SIMULATED.len());
}
