//! Programs that the checks and tests need: found where they are, installed where that is possible, asked for where it is not.
//!
//! Rust and Python tools go to `target/tools`, so nothing outside the working copy changes. Debian packages are installed
//! only by root; for everybody else the failure names the package.

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

/// Finds `typos`, or installs its wheel.
pub(crate) fn typos(repo: &Repo) -> Result<OsString, Failure> {
    if Program::new(repo, "typos").args(["--version"]).works() {
        return Ok("typos".into());
    }
    let folder = repo.tools().join("python");
    let own = folder.join("bin/typos");
    if Program::new(repo, &own).args(["--version"]).works() {
        return Ok(own.into());
    }
    debian(
        repo,
        "Python with venv",
        &["python3", "-c", "import ensurepip, venv"],
        &["python3", "python3-venv"],
    )?;
    Program::new(repo, "python3")
        .args(["-m", "venv"])
        .args([&folder])
        .run()?;
    Program::new(repo, folder.join("bin/pip"))
        .args(["install", "--quiet", &format!("typos=={TYPOS}")])
        .run()?;
    Ok(own.into())
}

/// Installs the packages that the fake model server consists of, and returns the folder that holds them.
pub(crate) fn fake_llm(repo: &Repo) -> Result<PathBuf, Failure> {
    let folder = repo.root().join("tests/fake-llm");
    let modules = folder.join("node_modules");
    debian(repo, "Node.js", &["node", "--version"], &["nodejs", "npm"])?;
    debian(repo, "npm", &["npm", "--version"], &["npm"])?;
    if !is_current(&folder) {
        Program::new(repo, "npm")
            .args(["ci", "--no-audit", "--no-fund", "--prefix"])
            .args([&folder])
            .run()?;
    }
    Ok(modules)
}

/// Holds where npm's own record of what it installed is not older than the lock file.
fn is_current(folder: &std::path::Path) -> bool {
    let changed = |name: &str| {
        std::fs::metadata(folder.join(name))
            .and_then(|file| file.modified())
            .ok()
    };
    match (
        changed("node_modules/.package-lock.json"),
        changed("package-lock.json"),
    ) {
        (Some(installed), Some(locked)) => installed >= locked,
        (None, _) | (_, None) => false,
    }
}

/// Makes sure that a program of Debian's runs: root installs its packages, others are told to.
fn debian(repo: &Repo, what: &'static str, probe: &[&str], packages: &[&str]) -> Result<(), Failure> {
    let works = || {
        let (program, args) = probe.split_first().expect("a probe names a program");
        Program::new(repo, program).args(args).works()
    };
    if works() {
        return Ok(());
    }
    let install = format!("apt-get install --yes {}", packages.join(" "));
    if !(is_root(repo) && Program::new(repo, "apt-get").args(["--version"]).works()) {
        return Err(Failure::Missing { what, install });
    }
    println!("{what} is not installed");
    Program::new(repo, "apt-get").args(["update", "--quiet"]).run()?;
    Program::new(repo, "apt-get")
        .args(["install", "--yes", "--quiet", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()?;
    if works() {
        Ok(())
    } else {
        Err(Failure::Missing { what, install })
    }
}

fn is_root(repo: &Repo) -> bool {
    Program::new(repo, "id")
        .args(["-u"])
        .capture()
        .is_ok_and(|id| id.trim_ascii() == b"0")
}
