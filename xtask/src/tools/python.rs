//! A Python environment of the working copy's own, for programs that come as wheels.

use std::path::PathBuf;

use super::debian;
use crate::{failure::Failure, program::Program, repo::Repo};

/// Names the environment's folder.
pub(super) fn folder(repo: &Repo) -> PathBuf {
    repo.tools().join("python")
}

/// Installs one wheel, and the environment before it.
pub(super) fn install(repo: &Repo, wheel: &str) -> Result<(), Failure> {
    let can_make = |repo: &Repo| {
        Program::new(repo, "python3")
            .args(["-c", "import ensurepip, venv"])
            .works()
    };
    debian::provide(repo, "Python with venv", can_make, &["python3", "python3-venv"])?;
    let pip = folder(repo).join("bin/pip");
    if !Program::new(repo, &pip).args(["--version"]).works() {
        Program::new(repo, "python3")
            .args(["-m", "venv"])
            .args([folder(repo)])
            .run()?;
    }
    Program::new(repo, &pip)
        .args(["install", "--quiet", "--only-binary", ":all:", wheel])
        .run()
}

/// Finds the folder in which a module of the environment lies.
pub(super) fn module(repo: &Repo, name: &str) -> Result<PathBuf, Failure> {
    let script = format!("import os, {name}; print(os.path.dirname({name}.__file__), end='')");
    let path = Program::new(repo, folder(repo).join("bin/python3"))
        .args(["-c", &script])
        .capture()?;
    Ok(PathBuf::from(String::from_utf8_lossy(&path).into_owned()))
}
