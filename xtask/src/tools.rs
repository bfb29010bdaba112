//! Programs that the checks and tests need: found where they are, installed where that is possible, asked for where it is not.
//!
//! What comes from a registry goes to `target/tools`, so nothing outside the working copy changes. Debian packages are
//! installed only by root; for everybody else the failure names the package.

mod debian;
mod node;
mod postgres;
mod python;

use std::{ffi::OsString, path::PathBuf};

use crate::{failure::Failure, program::Program, repo::Repo};

const NEXTEST: &str = "0.9.143";
const TYPOS: &str = "1.52.0";

/// Makes sure that `cargo nextest` runs.
pub(crate) fn nextest(repo: &Repo) -> Result<(), Failure> {
    if Program::cargo(repo).args(["nextest", "--version"]).works() {
        return Ok(());
    }
    println!(
        "cargo-nextest is not installed: building {NEXTEST} for this working copy, which takes some minutes"
    );
    Program::cargo(repo)
        .args(["install", "--locked", "cargo-nextest", "--version", NEXTEST])
        .args([
            "--no-default-features",
            "--features",
            "default-no-update",
            "--root",
        ])
        .args([repo.tools()])
        .run()
}

/// Makes sure that tests can start a Postgres of their own.
pub(crate) fn postgres(repo: &Repo) -> Result<(), Failure> {
    postgres::provide(repo)
}

/// Finds `typos`, or installs its wheel.
pub(crate) fn typos(repo: &Repo) -> Result<OsString, Failure> {
    if Program::new(repo, "typos").args(["--version"]).works() {
        return Ok("typos".into());
    }
    let own = python::folder(repo).join("bin/typos");
    if !Program::new(repo, &own).args(["--version"]).works() {
        python::install(repo, &format!("typos=={TYPOS}"))?;
    }
    Ok(own.into())
}

/// Installs the packages that the fake model server consists of, and returns the folder that holds them.
pub(crate) fn fake_llm(repo: &Repo) -> Result<PathBuf, Failure> {
    let folder = repo.root().join("tests/fake-llm");
    node::provide(repo)?;
    if !node::is_installed(&folder) {
        Program::new(repo, "npm")
            .args(["ci", "--prefix"])
            .args([&folder])
            .run()?;
    }
    Ok(folder.join("node_modules"))
}
