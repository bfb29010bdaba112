//! `cargo xtask chaos`: real servers, a real database, real clients, and somebody who kills, stops and cuts them.

use clap::Args;

use crate::{failure::Failure, program::Program, repo::Repo};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// How long trouble is made.
    #[arg(long, default_value_t = 2, value_name = "N")]
    minutes: u64,
    /// What the troubles follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Servers on one Postgres.
    #[arg(long, default_value_t = 3, value_name = "N")]
    replicas: usize,
    /// One server on SQLite instead.
    #[arg(long)]
    sqlite: bool,
    /// Also fill up the disk of the database. Needs root and loop devices.
    #[arg(long)]
    fill_disk: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Builds the binary and the program, and lets it loose.
pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<(), Failure> {
    let seconds = (arguments.minutes * 60).to_string();
    let (seed, replicas) = (arguments.seed.to_string(), arguments.replicas.to_string());
    let mut flags = vec!["--seconds", &seconds, "--seed", &seed];
    match arguments.sqlite {
        true => flags.push("--sqlite"),
        false => flags.extend(["--replicas", &replicas]),
    }
    for (is_set, flag) in [(arguments.fill_disk, "--fill-disk"), (arguments.json, "--json")] {
        if is_set {
            flags.push(flag);
        }
    }
    drive(repo, &flags)
}

/// Runs the program with its own flags.
pub(crate) fn drive(repo: &Repo, flags: &[&str]) -> Result<(), Failure> {
    Program::cargo(repo)
        .args([
            "build",
            "--quiet",
            "--package",
            "portolan-cli",
            "--bin",
            "portolan",
        ])
        .run()?;
    Program::cargo(repo)
        .args([
            "run",
            "--quiet",
            "--package",
            "portolan-testkit",
            "--bin",
            "chaos",
            "--",
        ])
        .args(flags)
        .run()
}
