//! The `portolan` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    portolan_cli::main()
}
