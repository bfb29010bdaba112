//! Why a chore did not succeed, in words that say what to do next.

use std::{error::Error, io, path::PathBuf, process::ExitCode};

/// What stopped a chore.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A program could not be started at all.
    #[error("cannot start `{command}`")]
    Start {
        command: String,
        #[source]
        source: io::Error,
    },
    /// A program ran and said no.
    #[error("`{command}` failed ({})", ended(*code))]
    Exit { command: String, code: Option<i32> },
    /// A file of the repository could not be read or made.
    #[error("cannot read or write {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Something that should have a form does not have it.
    #[error("cannot make sense of {what}")]
    Form {
        what: String,
        #[source]
        source: Box<dyn Error>,
    },
    /// A check looked and found something.
    #[error("{rule}:{}", listed(findings))]
    Findings {
        rule: &'static str,
        findings: Vec<String>,
    },
    /// A program that the work needs is not installed and cannot be installed from here.
    #[error("{what} is missing. Install it: {install}")]
    Missing { what: &'static str, install: String },
    /// A name was asked for that is not one of the names there are.
    #[error("there is no {kind} `{name}`; there are: {}", names.join(", "))]
    Unknown {
        kind: &'static str,
        name: String,
        names: Vec<&'static str>,
    },
    /// Several parts failed; each has been reported where it happened.
    #[error("{failed} of {of} {parts} failed: {}", names.join(", "))]
    Several {
        parts: &'static str,
        failed: usize,
        of: usize,
        names: Vec<&'static str>,
    },
}

impl Failure {
    /// Makes a `Form` failure of any error.
    pub(crate) fn form(what: impl Into<String>, source: impl Error + 'static) -> Self {
        Self::Form {
            what: what.into(),
            source: Box::new(source),
        }
    }

    /// Prints the failure and its causes, one a line.
    pub(crate) fn print(&self) {
        eprintln!("error: {self}");
        let mut cause = self.source();
        while let Some(error) = cause {
            eprintln!("  caused by: {error}");
            cause = error.source();
        }
    }

    /// Hands on a child's own exit code, and 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        let Self::Exit { code: Some(code), .. } = self else {
            return ExitCode::FAILURE;
        };
        u8::try_from(*code).map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

/// Fails with the findings, if there are any.
pub(crate) fn none_found(rule: &'static str, findings: Vec<String>) -> Result<(), Failure> {
    if findings.is_empty() {
        Ok(())
    } else {
        Err(Failure::Findings { rule, findings })
    }
}

fn ended(code: Option<i32>) -> String {
    code.map_or_else(
        || "ended by a signal".to_owned(),
        |code| format!("exit code {code}"),
    )
}

fn listed(findings: &[String]) -> String {
    findings.iter().map(|finding| format!("\n  {finding}")).collect()
}
