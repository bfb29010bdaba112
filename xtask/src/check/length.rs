//! No source file grows past the length at which it has more than one job.

use std::path::Path;

use crate::{
    failure::{Failure, none_found},
    repo::Repo,
};

const LONGEST: usize = 800;

const SOURCES: &[&str] = &["rs", "py", "ts", "tsx", "js", "mjs", "css", "sh", "proto", "sql"];

/// Looks for source files that are too long.
pub(crate) fn check(repo: &Repo) -> Result<(), Failure> {
    let mut findings = Vec::new();
    for path in repo.files()?.iter().filter(|path| is_source(path)) {
        if let Some(text) = repo.read_if_text(path)? {
            findings.extend(too_long(path, &text));
        }
    }
    none_found("a file past 800 lines has more than one job", findings)
}

fn is_source(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| SOURCES.iter().any(|one| extension == *one))
}

fn too_long(path: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > LONGEST).then(|| format!("{}: {lines} lines", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_last_good_length() {
        let path = Path::new("a.rs");
        assert_eq!(too_long(path, &"x\n".repeat(LONGEST)), None);
        assert_eq!(
            too_long(path, &"x\n".repeat(LONGEST + 1)),
            Some("a.rs: 801 lines".to_owned())
        );
    }

    #[test]
    fn only_sources_count() {
        assert!(is_source(Path::new("crates/core/src/lib.rs")));
        assert!(!is_source(Path::new("Cargo.lock")));
        assert!(!is_source(Path::new("api/openapi.json")));
    }
}
