//! Child processes: started in the repository's root, announced before they run, their output left alone.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use crate::{failure::Failure, repo::Repo};

/// One program with its arguments, ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    tools: PathBuf,
}

impl Program {
    /// Prepares a program that runs in the repository's root and finds the repository's own tools first.
    pub(crate) fn new(repo: &Repo, program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.current_dir(repo.root());
        Self {
            command,
            tools: repo.tools().join("bin"),
        }
    }

    /// Prepares `cargo`.
    pub(crate) fn cargo(repo: &Repo) -> Self {
        Self::new(repo, "cargo")
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it in front of the user, who sees the command line and everything it prints.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        self.command.env("PATH", path_with(&self.tools));
        println!("$ {}", self.line());
        let status = self.command.status().map_err(|source| self.not_started(source))?;
        self.judge(status)
    }

    /// Runs it in silence and returns what it wrote to its standard output.
    pub(crate) fn capture(mut self) -> Result<Vec<u8>, Failure> {
        self.command
            .env("PATH", path_with(&self.tools))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        let output = self.command.output().map_err(|source| self.not_started(source))?;
        self.judge(output.status)?;
        Ok(output.stdout)
    }

    /// Says whether it starts and ends well, without showing anything.
    pub(crate) fn works(mut self) -> bool {
        self.command.env("PATH", path_with(&self.tools));
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.command.status().is_ok_and(|status| status.success())
    }

    fn judge(&self, status: ExitStatus) -> Result<(), Failure> {
        if status.success() {
            return Ok(());
        }
        Err(Failure::Exit {
            command: self.line(),
            code: status.code(),
        })
    }

    fn not_started(&self, source: std::io::Error) -> Failure {
        Failure::Start {
            command: self.line(),
            source,
        }
    }

    fn line(&self) -> String {
        let mut line = self.command.get_program().to_string_lossy().into_owned();
        for argument in self.command.get_args() {
            line.push(' ');
            line.push_str(&argument.to_string_lossy());
        }
        line
    }
}

fn path_with(first: &Path) -> OsString {
    let mut path = first.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    path
}
