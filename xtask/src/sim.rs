//! `cargo xtask sim`: the engine on simulated time, with faults in everything around it, one history a seed.

use clap::Args;

use crate::{failure::Failure, program::Program, repo::Repo};

/// Seeds that failed once.
const SAVED: &str = "crates/testkit/sim-seeds.txt";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1, value_name = "S")]
    from: u64,
    /// Threads; as many as there are cores if absent.
    #[arg(long, value_name = "K")]
    threads: Option<usize>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Print the whole history of the first seed, and run no other.
    #[arg(long)]
    trace: bool,
    /// Plant each known bug in turn, and fail if one survives the seeds.
    #[arg(long, conflicts_with = "plant")]
    plants: bool,
    /// Plant this bug, and say how many seeds it takes to notice.
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
    /// Build with optimisation: worth its minutes from some ten thousand seeds on.
    #[arg(long)]
    optimised: bool,
}

/// Runs the seeds, and those that failed once.
pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<(), Failure> {
    let mut flags = vec!["--seeds".to_owned(), arguments.seeds.to_string()];
    flags.extend(["--from".to_owned(), arguments.from.to_string()]);
    if let Some(threads) = arguments.threads {
        flags.extend(["--threads".to_owned(), threads.to_string()]);
    }
    if let Some(plant) = &arguments.plant {
        flags.extend(["--plant".to_owned(), plant.clone()]);
    }
    for (is_set, flag) in [
        (arguments.json, "--json"),
        (arguments.trace, "--trace"),
        (arguments.plants, "--plants"),
    ] {
        if is_set {
            flags.push(flag.to_owned());
        }
    }
    let profile = if arguments.optimised { "sim" } else { "dev" };
    drive(repo, profile, &flags)
}

/// Runs the program with its own flags.
pub(crate) fn drive(repo: &Repo, profile: &str, flags: &[String]) -> Result<(), Failure> {
    let saved = repo.root().join(SAVED);
    Program::cargo(repo)
        .args([
            "run",
            "--quiet",
            "--profile",
            profile,
            "--package",
            "portolan-testkit",
            "--bin",
            "sim",
            "--",
        ])
        .args(flags)
        .args(["--saved".as_ref(), saved.as_os_str()])
        .run()
}
