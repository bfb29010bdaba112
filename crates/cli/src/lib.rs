//! The `portolan` command line: the one place where the ports meet their implementations.
//!
//! This crate owns the configuration, the composition of a server, and everything that a person sees in a terminal. Data
//! goes to stdout, talk to stderr. Errors are printed once, here, with their causes and with what to do next. What the
//! binary does not have yet it refuses by name.

#![allow(
    clippy::disallowed_methods,
    reason = "this crate is where the world comes in: files, environment, processes, sockets and the terminal"
)]

mod agent_file;
mod args;
mod client;
mod cmd;
pub mod compose;
pub mod config;
mod exit;
mod failure;
mod faults;
mod folder;
mod logging;
mod render;
mod screen;

pub use exit::Exit;
pub use failure::Failure;

use args::Arguments;
use clap::Parser as _;
use screen::Screen;
use std::{ffi::OsString, process::ExitCode};

/// Runs the command line of this process and says how it ended.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs one command line.
fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    let screen = Screen::new(&arguments.global);
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable("the runtime cannot be started").because(&error))
        .and_then(|runtime| {
            let ended = runtime.block_on(Box::pin(cmd::run(arguments, screen.clone())));
            // A read of stdin or a query that nobody waits for any more must not keep the process.
            runtime.shutdown_background();
            ended
        });
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            screen.failure(&failure);
            failure.exit().into()
        }
    }
}

/// What clap has to say: help and version are no errors.
fn refused(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    match (error.use_stderr(), printed) {
        (false, Ok(())) => Exit::Ok.into(),
        (false, Err(_)) => Exit::Unavailable.into(),
        (true, _) => Exit::Usage.into(),
    }
}
