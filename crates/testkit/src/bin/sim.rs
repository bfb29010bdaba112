//! `cargo xtask sim` starts this.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use portolan_testkit::sim::{Outcome, Swarm, run};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    let from: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    for seed in from..from + count {
        let swarm = Swarm::of(seed);
        let Outcome {
            counts,
            digest,
            violations,
            text,
        } = run(seed, &swarm, count == 1);
        println!("{seed} {digest} {counts:?}");
        for line in &text {
            println!("{line}");
        }
        for violation in &violations {
            println!("  {violation}");
        }
    }
}
