//! What may enter the build: licences, banned crates and sources, as `deny.toml` has them.
//!
//! The file is cargo-deny's, and cargo-deny understands it; this check needs neither that program nor a network. Known
//! vulnerabilities are not looked up here: their database can only be had over the network (`cargo deny check advisories`).

use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::{
    failure::{Failure, none_found},
    metadata::{Metadata, Package},
    repo::Repo,
};

#[derive(Debug, Deserialize)]
struct Policy {
    graph: Graph,
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
    allow_git: Vec<String>,
}

/// Judges every package of the build.
pub(crate) fn check(repo: &Repo) -> Result<(), Failure> {
    let policy: Policy =
        toml::from_str(&repo.read("deny.toml")?).map_err(|error| Failure::form("deny.toml", error))?;
    let metadata = Metadata::of_build(repo, &policy.graph.targets)?;
    let mut findings = Vec::new();
    for package in &metadata.packages {
        findings.extend(policy.judge(package));
    }
    println!(
        "{} packages; known vulnerabilities need a network: cargo deny check advisories",
        metadata.packages.len()
    );
    none_found("deny.toml does not allow this", findings)
}

impl Policy {
    fn judge(&self, package: &Package) -> Vec<String> {
        let mut findings = Vec::new();
        if let Some(ban) = self.bans.deny.iter().find(|ban| ban.name == package.name) {
            findings.push(format!("{} is banned: {}", package.name, ban.reason));
        }
        findings.extend(
            self.licence(package)
                .map(|wrong| format!("{} {}: {wrong}", package.name, package.version)),
        );
        match &package.source {
            None => findings.extend(wildcards(package)),
            Some(source) if self.knows(source) => {}
            Some(source) => findings.push(format!("{} comes from {source}", package.name)),
        }
        findings
    }

    fn licence(&self, package: &Package) -> Option<String> {
        let Some(text) = &package.license else {
            return Some("has no licence expression".to_owned());
        };
        let Ok(expression) = Expression::parse_mode(text, ParseMode::LAX) else {
            return Some(format!("its licence `{text}` is no SPDX expression"));
        };
        let allowed = expression.evaluate(|one| self.licenses.allow.contains(&one.to_string()));
        (!allowed).then(|| format!("its licence `{text}` is not allowed"))
    }

    fn knows(&self, source: &str) -> bool {
        let from = |prefix: &str, allowed: &[String]| {
            source
                .strip_prefix(prefix)
                .is_some_and(|address| allowed.iter().any(|one| one == address))
        };
        from("registry+", &self.sources.allow_registry) || from("git+", &self.sources.allow_git)
    }
}

/// Finds dependencies of our own packages that any version would satisfy.
fn wildcards(package: &Package) -> Vec<String> {
    let any = package
        .dependencies
        .iter()
        .filter(|one| one.req == "*" && one.path.is_none());
    any.map(|one| format!("{} takes any version of {}", package.name, one.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        toml::from_str(&Repo::find().read("deny.toml").expect("a policy")).expect("it parses")
    }

    fn package(name: &str, licence: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: licence.map(str::to_owned),
            source: source.map(str::to_owned),
            dependencies: Vec::new(),
            targets: Vec::new(),
        }
    }

    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

    #[test]
    fn allowed_expressions_pass() {
        let policy = policy();
        for licence in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT OR GPL-2.0-only) AND Unicode-3.0",
        ] {
            assert_eq!(
                policy.judge(&package("good", Some(licence), Some(CRATES_IO))),
                Vec::<String>::new(),
                "{licence}"
            );
        }
    }

    #[test]
    fn everything_else_is_named() {
        let policy = policy();
        for (package, finding) in [
            (
                package("a", Some("GPL-3.0-only"), Some(CRATES_IO)),
                "a 1.0.0: its licence `GPL-3.0-only` is not allowed",
            ),
            (
                package("a", Some("MIT AND GPL-3.0-only"), Some(CRATES_IO)),
                "a 1.0.0: its licence `MIT AND GPL-3.0-only` is not allowed",
            ),
            (
                package("a", Some("do what you want"), Some(CRATES_IO)),
                "a 1.0.0: its licence `do what you want` is no SPDX expression",
            ),
            (
                package("a", None, Some(CRATES_IO)),
                "a 1.0.0: has no licence expression",
            ),
            (
                package("a", Some("MIT"), Some("git+https://example.org/a")),
                "a comes from git+https://example.org/a",
            ),
            (
                package("a", Some("MIT"), Some("registry+https://example.org/index")),
                "a comes from registry+https://example.org/index",
            ),
            (
                package("openssl-sys", Some("MIT"), Some(CRATES_IO)),
                "openssl-sys is banned: one TLS library: rustls",
            ),
        ] {
            assert_eq!(policy.judge(&package), [finding]);
        }
    }
}
