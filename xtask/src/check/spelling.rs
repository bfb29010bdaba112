//! Typing errors, found by `typos` with the words of `typos.toml`.

use crate::{failure::Failure, program::Program, repo::Repo, tools};

/// Runs `typos` over the repository.
pub(crate) fn check(repo: &Repo) -> Result<(), Failure> {
    let typos = tools::typos(repo)?;
    Program::new(repo, typos).args(["--config", "typos.toml"]).run()
}
