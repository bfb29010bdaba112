//! `portolan completions SHELL`.

use crate::{Exit, Failure, args::Arguments, screen::Screen};
use clap::CommandFactory as _;

/// Prints the completions of a shell.
pub(super) fn run(shell: clap_complete::Shell, screen: &Screen) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "portolan", &mut script);
    screen.bytes(&script)?;
    Ok(Exit::Ok)
}
