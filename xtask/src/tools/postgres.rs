//! The server that tests start their own clusters of.

use super::debian;
use crate::{failure::Failure, program::Program, repo::Repo};

/// Makes sure that a version is installed that the store takes. The service that comes with the package is not used.
pub(super) fn provide(repo: &Repo) -> Result<(), Failure> {
    debian::provide(repo, "Postgres 15 or later", is_installed, &["postgresql"])
}

fn is_installed(repo: &Repo) -> bool {
    let folders = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    folders
        .filter(|folder| {
            let version = folder
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok());
            version.is_some_and(|version| version >= 15)
        })
        .any(|folder| {
            Program::new(repo, folder.path().join("bin/postgres"))
                .args(["--version"])
                .works()
        })
}
