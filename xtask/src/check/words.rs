//! Nothing in the repository names a developer's machine, and no lock file names the host of a registry.
//!
//! A path of one machine works on that machine only. A registry's host in a lock file sends every other user to a server
//! that may be somebody's private mirror.

use std::path::Path;

use crate::{
    failure::{Failure, none_found},
    repo::Repo,
};

/// Folders in which a person's or a robot's files lie. Split, so that this file does not trip over itself.
const PRIVATE: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
];

/// A word that must not stand in files of some names.
struct Rule {
    files: &'static [&'static str],
    word: &'static str,
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        files: &["package-lock.json", "npm-shrinkwrap.json"],
        word: "\"resolved\":",
        instead: "omit-lockfile-registry-resolved=true in .npmrc",
    },
    Rule {
        files: &[".npmrc"],
        word: "registry=http",
        instead: "leave the registry to the user's configuration",
    },
    Rule {
        files: &["requirements.txt", "pip.conf"],
        word: "index-url",
        instead: "leave the index to the user's configuration",
    },
    Rule {
        files: &["uv.lock", "poetry.lock"],
        word: "url = \"http",
        instead: "lock hashes in a requirements file",
    },
];

/// Looks for paths of one machine and for hosts of registries.
pub(crate) fn check(repo: &Repo) -> Result<(), Failure> {
    let mut findings = Vec::new();
    for path in repo.files()? {
        if let Some(text) = repo.read_if_text(&path)? {
            findings.extend(found(&path, &text));
        }
    }
    none_found("the repository must mean the same on every machine", findings)
}

fn found(path: &Path, text: &str) -> Vec<String> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default();
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at = format!("{}:{}", path.display(), index + 1);
        if let Some(private) = PRIVATE.iter().find(|private| starts_a_path(line, private)) {
            findings.push(format!("{at}: names {private}"));
        }
        for rule in RULES.iter().filter(|rule| rule.files.contains(&name.as_ref())) {
            if line.contains(rule.word) {
                findings.push(format!("{at}: {} ({})", rule.word, rule.instead));
            }
        }
    }
    findings
}

/// Holds where the folder is the beginning of an absolute path, and not a part of a longer one.
fn starts_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|one| one.is_alphanumeric() || "_.-/}~".contains(one))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_machine_are_found() {
        for private in PRIVATE {
            let line = format!("let path = \"{private}somebody/file\";");
            assert_eq!(
                found(Path::new("src/a.rs"), &line),
                [format!("src/a.rs:1: names {private}")]
            );
        }
    }

    #[test]
    fn parts_of_longer_paths_are_not() {
        for private in PRIVATE {
            for before in ["some", "..", "${DIR}", "~", "net"] {
                let line = format!("{before}{private}file");
                assert_eq!(found(Path::new("a.md"), &line), Vec::<String>::new(), "{line}");
            }
        }
        assert_eq!(
            found(Path::new("a.md"), "/workspace/file and /rooted/file"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn hosts_of_registries_are_found_in_lock_files_only() {
        let line = "      \"resolved\": \"https://registry.example/x.tgz\",";
        assert_eq!(found(Path::new("tests/x/package-lock.json"), line).len(), 1);
        assert_eq!(
            found(Path::new("tests/x/answer.json"), line),
            Vec::<String>::new()
        );
    }
}
