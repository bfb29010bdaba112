//! That simulations repeat themselves, and that the rules hold for some of them.

use super::{Campaign, Swarm, campaign, run};

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
