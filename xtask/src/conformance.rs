//! `cargo xtask conformance`: recorded scenarios of the bounded loop against this build.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::{failure::Failure, program::Program, repo::Repo};

/// The scenarios that the repository holds.
pub(crate) const SCENARIOS: &str = "conformance/scenarios";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A folder of scenario files, or one file.
    scenarios: PathBuf,
    /// Drives the scenarios through the durable engine instead of the embedded drivers.
    #[arg(long)]
    durable: bool,
    /// Kills the engine at every commit and every call, and resumes it. Needs `--durable`.
    #[arg(long, requires = "durable")]
    kill_everywhere: bool,
}

/// How the scenarios are driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drive {
    /// The machine with the blocking and the async driver.
    Embedded,
    /// The engine, left alone.
    Durable,
    /// The engine, killed at every commit and every call.
    KillEverywhere,
}

impl Drive {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Embedded => &[],
            Self::Durable => &["--durable"],
            Self::KillEverywhere => &["--durable", "--kill-everywhere"],
        }
    }
}

/// Runs the scenarios that the arguments name; a path is meant from where the user stands.
pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.scenarios;
    let scenarios = std::path::absolute(path).map_err(|source| Failure::File {
        path: path.clone(),
        source,
    })?;
    drive(repo, &scenarios, chosen(arguments))
}

/// Runs the scenarios in one way.
pub(crate) fn drive(repo: &Repo, scenarios: &Path, drive: Drive) -> Result<(), Failure> {
    Program::cargo(repo)
        .args([
            "run",
            "--quiet",
            "--package",
            "portolan-testkit",
            "--bin",
            "conformance",
            "--",
        ])
        .args([scenarios])
        .args(drive.flags())
        .run()
}

fn chosen(arguments: &Arguments) -> Drive {
    match (arguments.durable, arguments.kill_everywhere) {
        (false, _) => Drive::Embedded,
        (true, false) => Drive::Durable,
        (true, true) => Drive::KillEverywhere,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn flags_choose_the_drive() {
        for (line, drive, flags) in [
            (&["x", "dir"][..], Drive::Embedded, &[][..]),
            (&["x", "dir", "--durable"], Drive::Durable, &["--durable"]),
            (
                &["x", "dir", "--durable", "--kill-everywhere"],
                Drive::KillEverywhere,
                &["--durable", "--kill-everywhere"],
            ),
        ] {
            let parsed = Line::try_parse_from(line).expect("a good command line");
            assert_eq!(chosen(&parsed.arguments), drive);
            assert_eq!(drive.flags(), flags);
        }
    }

    #[test]
    fn killing_needs_the_engine() {
        let error = Line::try_parse_from(["x", "dir", "--kill-everywhere"]).expect_err("nothing to kill");
        assert_eq!(error.kind(), clap::error::ErrorKind::MissingRequiredArgument);
    }
}
