//! What Cargo knows about the workspace: packages, their dependencies and their targets.

use std::path::PathBuf;

use serde::Deserialize;

use crate::{failure::Failure, program::Program, repo::Repo};

/// The part of `cargo metadata` that the checks read.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
}

/// One package, ours or somebody else's.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// Absent for packages of the workspace.
    pub(crate) source: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// One line of a manifest's dependency tables.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// The version requirement.
    pub(crate) req: String,
    pub(crate) kind: Option<DependencyKind>,
    pub(crate) path: Option<PathBuf>,
}

/// A table of dependencies other than the normal one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DependencyKind {
    Dev,
    Build,
}

/// One thing that Cargo builds.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
    /// Features without which it is not built.
    #[serde(default, rename = "required-features")]
    pub(crate) required_features: Vec<String>,
}

impl Metadata {
    /// Reads the workspace's own packages. Needs neither a network nor a lock file.
    pub(crate) fn of_workspace(repo: &Repo) -> Result<Self, Failure> {
        Self::read(repo, &["--no-deps".to_owned(), "--offline".to_owned()])
    }

    /// Reads everything that is built for one of the targets, as the lock file has it.
    pub(crate) fn of_build(repo: &Repo, targets: &[String]) -> Result<Self, Failure> {
        let mut args = vec!["--locked".to_owned()];
        for target in targets {
            args.push("--filter-platform".to_owned());
            args.push(target.clone());
        }
        Self::read(repo, &args)
    }

    fn read(repo: &Repo, args: &[String]) -> Result<Self, Failure> {
        let json = Program::cargo(repo)
            .args(["metadata", "--quiet", "--format-version", "1"])
            .args(args)
            .capture()?;
        serde_json::from_slice(&json).map_err(|error| Failure::form("the output of cargo metadata", error))
    }
}
