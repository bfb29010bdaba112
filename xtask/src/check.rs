//! `cargo xtask check`: everything that is judged without running a test.
//!
//! The cheap checks come first and all of them run, so that one call shows everything that is wrong.

mod determinism;
mod error_pages;
mod layers;
mod length;
mod licences;
mod modules;
mod museum;
mod spelling;
mod words;

use clap::Args;

use crate::{failure::Failure, program::Program, repo::Repo};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Which checks; all of them if absent.
    names: Vec<String>,
}

struct Check {
    name: &'static str,
    about: &'static str,
    run: fn(&Repo) -> Result<(), Failure>,
}

const CHECKS: &[Check] = &[
    Check {
        name: "layers",
        about: "crates depend only on what the table allows",
        run: layers::check,
    },
    Check {
        name: "determinism",
        about: "the deterministic crates keep the bans of clippy.toml",
        run: determinism::check,
    },
    Check {
        name: "modules",
        about: "every source file is compiled, one test binary a crate",
        run: modules::check,
    },
    Check {
        name: "length",
        about: "no source file is longer than 800 lines",
        run: length::check,
    },
    Check {
        name: "words",
        about: "no path of a machine, no registry's host in a lock file",
        run: words::check,
    },
    Check {
        name: "error-pages",
        about: "every error code has its page",
        run: error_pages::check,
    },
    Check {
        name: "museum",
        about: "the tests that the museum names exist",
        run: museum::check,
    },
    Check {
        name: "licences",
        about: "licences, bans and sources of deny.toml",
        run: licences::check,
    },
    Check {
        name: "format",
        about: "rustfmt has nothing to change",
        run: format,
    },
    Check {
        name: "spelling",
        about: "no typing errors",
        run: spelling::check,
    },
    Check {
        name: "lints",
        about: "clippy is silent",
        run: lints,
    },
];

/// Runs the chosen checks and reports all that fail.
pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<(), Failure> {
    let checks = chosen(&arguments.names)?;
    let mut failed = Vec::new();
    for check in &checks {
        println!("== {}: {}", check.name, check.about);
        if let Err(failure) = (check.run)(repo) {
            failure.print();
            failed.push(check.name);
        }
    }
    if failed.is_empty() {
        println!("checks: {} passed, 0 failed", checks.len());
        return Ok(());
    }
    Err(Failure::Several {
        parts: "checks",
        failed: failed.len(),
        of: checks.len(),
        names: failed,
    })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Check>, Failure> {
    if names.is_empty() {
        return Ok(CHECKS.iter().collect());
    }
    names.iter().map(|name| find(name)).collect()
}

fn find(name: &str) -> Result<&'static Check, Failure> {
    CHECKS
        .iter()
        .find(|check| check.name == name)
        .ok_or_else(|| Failure::Unknown {
            kind: "check",
            name: name.to_owned(),
            names: CHECKS.iter().map(|check| check.name).collect(),
        })
}

fn format(repo: &Repo) -> Result<(), Failure> {
    Program::cargo(repo).args(["fmt", "--all", "--check"]).run()
}

fn lints(repo: &Repo) -> Result<(), Failure> {
    Program::cargo(repo)
        .args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            crate::test::FEATURES,
        ])
        .args(["--", "--deny", "warnings"])
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_checks_in_the_order_given() {
        let some = chosen(&["words".to_owned(), "layers".to_owned()]).expect("both exist");
        assert_eq!(
            some.iter().map(|check| check.name).collect::<Vec<_>>(),
            ["words", "layers"]
        );
        assert!(matches!(
            chosen(&["nothing".to_owned()]),
            Err(Failure::Unknown { .. })
        ));
    }
}
