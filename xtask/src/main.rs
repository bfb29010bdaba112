//! The project's own chores: checks, tests, conformance and benchmarks, each one word of `cargo xtask`.
//!
//! Every command starts ordinary programs, shows their output as it comes and ends with the first thing that is wrong, in words.
//! Nothing here is linked into the product.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for developers works on files, processes and a terminal"
)]

mod bench;
mod chaos;
mod check;
mod conformance;
mod failure;
mod layering;
mod matrix;
mod metadata;
mod program;
mod repo;
mod sim;
mod soak;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{failure::Failure, repo::Repo};

/// Builds, checks and tests Portolan.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything that is judged without running a test: format, lints, layering, licences, spelling, guards.
    Check(check::Arguments),
    /// Installs what the tests need, runs every lane and prints how long each took.
    Test(test::Arguments),
    /// Runs the loop's recorded scenarios against this build.
    Conformance(conformance::Arguments),
    /// Kills a real server at each fault point, on both stores, and judges what is left.
    Matrix(matrix::Arguments),
    /// Kills, stops and cuts real servers and their database, and judges what users were told.
    Chaos(chaos::Arguments),
    /// Runs the engine on simulated time, with faults in everything around it, seed by seed.
    Sim(sim::Arguments),
    /// Runs one benchmark program, or all of them.
    Bench(bench::Arguments),
    /// Runs what is too long for the tests: thousands of readers, hours of load.
    Soak(soak::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match dispatch(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}

fn dispatch(command: &Command) -> Result<(), Failure> {
    let repo = Repo::find();
    match command {
        Command::Check(arguments) => check::run(&repo, arguments),
        Command::Test(arguments) => test::run(&repo, arguments),
        Command::Conformance(arguments) => conformance::run(&repo, arguments),
        Command::Matrix(arguments) => matrix::run(&repo, arguments),
        Command::Chaos(arguments) => chaos::run(&repo, arguments),
        Command::Sim(arguments) => sim::run(&repo, arguments),
        Command::Bench(arguments) => bench::run(&repo, arguments),
        Command::Soak(arguments) => soak::run(&repo, arguments),
    }
}
