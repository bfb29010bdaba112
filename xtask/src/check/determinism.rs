//! The crates that must be replayable keep the bans of `clippy.toml`.
//!
//! Crates whose work is input and output switch the lint off at their root. A deterministic crate may not: there the
//! ban holds everywhere but in the modules listed here, which own the one place where the world comes in.

use std::path::Path;

use crate::{
    failure::{Failure, none_found},
    repo::Repo,
};

const DETERMINISTIC: &[&str] = &["core", "journal", "agent", "engine"];

/// Modules, by the path under which their files lie, that may let the world in.
const DOORS: &[&str] = &[
    // The real clocks and sources of chance.
    "crates/agent/src/ambient",
    "crates/engine/src/ambient",
    // Where work on files goes to the runtime's threads.
    "crates/engine/src/drive/workspace",
    // Where a command is waited for without a runtime.
    "crates/agent/src/tools/shell/thread",
];

/// Lint names that cover the bans.
const COVERS: &[&str] = &[
    "clippy::disallowed_methods",
    "clippy::style",
    "clippy::all",
    "warnings",
];

/// Calls that must be banned, as a sample of each kind.
const BANNED: &[&str] = &[
    "std::time::SystemTime::now",
    "std::time::Instant::now",
    "uuid::Uuid::now_v7",
    "uuid::Uuid::new_v4",
    "getrandom::fill",
    "std::thread::spawn",
    "std::thread::sleep",
    "tokio::spawn",
    "tokio::task::spawn",
    "tokio::task::spawn_blocking",
    "tokio::time::sleep",
    "std::fs::read",
    "std::fs::write",
    "std::fs::File::open",
    "std::fs::OpenOptions::open",
    "std::env::var",
    "std::env::args",
    "std::env::current_dir",
    "std::process::Command::new",
];

/// Looks for bans that were lifted, in the lint's configuration and in the crates.
pub(crate) fn check(repo: &Repo) -> Result<(), Failure> {
    let mut findings = missing_bans(&repo.read("clippy.toml")?)?;
    for path in repo.files()? {
        if is_deterministic(&path) {
            for attribute in lifted(&repo.read(&path)?) {
                findings.push(format!("{}: {attribute}", path.display()));
            }
        }
    }
    none_found("the deterministic crates must not read the world", findings)
}

fn is_deterministic(path: &Path) -> bool {
    let source = path.extension().is_some_and(|extension| extension == "rs");
    let of_ours = DETERMINISTIC
        .iter()
        .any(|name| path.starts_with(format!("crates/{name}/src")));
    let door = DOORS
        .iter()
        .any(|door| path.starts_with(door) || path == Path::new(&format!("{door}.rs")));
    source && of_ours && !door
}

fn missing_bans(configuration: &str) -> Result<Vec<String>, Failure> {
    let table: toml::Table =
        toml::from_str(configuration).map_err(|error| Failure::form("clippy.toml", error))?;
    let entries = table
        .get("disallowed-methods")
        .and_then(toml::Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let has = |name: &str| {
        entries.iter().any(|entry| {
            entry.get("path").and_then(toml::Value::as_str) == Some(name) && entry.get("reason").is_some()
        })
    };
    Ok(BANNED
        .iter()
        .filter(|name| !has(name))
        .map(|name| format!("clippy.toml does not ban {name}"))
        .collect())
}

/// Finds the attributes that lift a ban, unless they do so for tests alone.
fn lifted(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let dense: String = code.chars().filter(|one| !one.is_whitespace()).collect();
    let mut found = Vec::new();
    for piece in dense.split('#').skip(1) {
        let attribute = piece.strip_prefix('!').unwrap_or(piece);
        let Some(attribute) = attribute
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next())
        else {
            continue;
        };
        let names_it = COVERS.iter().any(|lint| attribute.contains(lint));
        let lifts = attribute.contains("allow(") || attribute.contains("expect(");
        if names_it && lifts && !attribute.starts_with("cfg_attr(test,") {
            found.push(format!("#[{attribute}]"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_crates_keep_the_bans() {
        let repo = Repo::find();
        let seen = repo
            .files()
            .expect("a listing")
            .iter()
            .filter(|path| is_deterministic(path))
            .count();
        assert!(seen >= 20, "only {seen} files were looked at");
        check(&repo).expect("no ban is lifted");
    }

    #[test]
    fn a_lifted_ban_is_found() {
        for source in [
            "#![allow(clippy::disallowed_methods, reason = \"quick\")]",
            "#[expect(\n    clippy::disallowed_methods,\n    reason = \"quick\"\n)]\nfn now() {}",
            "#![allow(clippy::all)]",
            "#![cfg_attr(not(test), allow(clippy::style))]",
        ] {
            assert_eq!(lifted(source).len(), 1, "{source}");
        }
    }

    #[test]
    fn tests_and_other_lints_are_left_alone() {
        for source in [
            "#![cfg_attr(\n    test,\n    allow(clippy::disallowed_methods, reason = \"temporary folders\")\n)]",
            "#![allow(clippy::large_futures)]",
            "#![warn(missing_docs)]",
            "// #![allow(clippy::disallowed_methods)]",
        ] {
            assert_eq!(lifted(source), Vec::<String>::new(), "{source}");
        }
    }

    #[test]
    fn only_the_door_may_open() {
        assert!(is_deterministic(Path::new("crates/agent/src/machine/state.rs")));
        assert!(is_deterministic(Path::new("crates/agent/src/ambience.rs")));
        assert!(!is_deterministic(Path::new("crates/agent/src/ambient.rs")));
        assert!(!is_deterministic(Path::new("crates/agent/src/ambient/clock.rs")));
        assert!(!is_deterministic(Path::new("crates/store/src/lib.rs")));
    }

    #[test]
    fn a_ban_without_a_reason_does_not_count() {
        let configuration = "disallowed-methods = [{ path = \"std::fs::read\" }]";
        let missing = missing_bans(configuration).expect("it parses");
        assert_eq!(missing.len(), BANNED.len());
    }
}
