//! Packages of Debian's: root gets them installed, everybody else is told what to install.

use crate::{failure::Failure, program::Program, repo::Repo};

/// Makes sure that a program runs that comes with Debian packages.
pub(super) fn provide(
    repo: &Repo,
    what: &'static str,
    works: impl Fn(&Repo) -> bool,
    packages: &[&str],
) -> Result<(), Failure> {
    if works(repo) {
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
    if works(repo) {
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
