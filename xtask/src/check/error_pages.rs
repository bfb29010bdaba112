//! Every error code that a user can meet has a page in `docs/errors/`, and the index names it.
//!
//! The codes are the lower-case string literals of the control plane's list of codes, one file that holds nothing else.

use std::{collections::BTreeSet, path::Path};

use crate::{
    failure::{Failure, none_found},
    repo::Repo,
};

const CODES: &str = "crates/control-plane/src/problem/codes.rs";
const PAGES: &str = "docs/errors";
const INDEX: &str = "README.md";
const TEMPLATE: &str = "_template.md";

/// Compares the codes with the pages and the index.
pub(crate) fn check(repo: &Repo) -> Result<(), Failure> {
    if !repo.root().join(CODES).is_file() {
        println!("no {CODES}: there are no codes to look up yet");
        return Ok(());
    }
    let codes = codes(&repo.read(CODES)?);
    let pages = pages(repo)?;
    let index = repo.read(Path::new(PAGES).join(INDEX))?;
    none_found(
        "error codes and pages must match",
        differences(&codes, &pages, &index),
    )
}

fn codes(source: &str) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
        // Between pairs of quotes stand the odd pieces.
        for literal in line.split('"').skip(1).step_by(2) {
            let word = literal
                .chars()
                .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_');
            if word && literal.starts_with(|one: char| one.is_ascii_lowercase()) {
                codes.insert(literal.to_owned());
            }
        }
    }
    codes
}

fn pages(repo: &Repo) -> Result<BTreeSet<String>, Failure> {
    let mut pages = BTreeSet::new();
    for path in repo.files()? {
        let Ok(name) = path.strip_prefix(PAGES) else {
            continue;
        };
        let name = name.to_string_lossy();
        if name != INDEX && name != TEMPLATE {
            pages.insert(name.trim_end_matches(".md").to_owned());
        }
    }
    Ok(pages)
}

fn differences(codes: &BTreeSet<String>, pages: &BTreeSet<String>, index: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if codes.is_empty() {
        findings.push(format!("{CODES} has no code in it"));
    }
    findings.extend(
        codes
            .difference(pages)
            .map(|code| format!("code `{code}` has no page {PAGES}/{code}.md")),
    );
    findings.extend(
        pages
            .difference(codes)
            .map(|page| format!("{PAGES}/{page}.md explains no code")),
    );
    for code in codes
        .intersection(pages)
        .filter(|code| !index.contains(&format!("({code}.md)")))
    {
        findings.push(format!("{PAGES}/{INDEX} does not link to {code}.md"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn codes_are_read_from_the_list() {
        let source = "/// Says \"not_this\".\npub const A: &str = \"not_found\";\nall(&[\"budget_exhausted\", \"Not A Code\"]);";
        assert_eq!(codes(source), set(&["budget_exhausted", "not_found"]));
    }

    #[test]
    fn each_difference_is_named() {
        let found = differences(
            &set(&["a_b", "c_d", "e_f"]),
            &set(&["a_b", "c_d", "old"]),
            "[a](a_b.md)",
        );
        assert_eq!(
            found,
            [
                "code `e_f` has no page docs/errors/e_f.md",
                "docs/errors/old.md explains no code",
                "docs/errors/README.md does not link to c_d.md",
            ]
        );
    }

    #[test]
    fn an_empty_list_is_no_success() {
        assert_eq!(differences(&set(&[]), &set(&[]), "").len(), 1);
    }
}
