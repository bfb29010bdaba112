//! The tests that the museum names exist.

use std::collections::BTreeSet;

use crate::{
    failure::{Failure, none_found},
    repo::Repo,
};

const PAGE: &str = "docs/design/museum.md";

/// Looks for names in the last column of the page that no source has.
pub(crate) fn check(repo: &Repo) -> Result<(), Failure> {
    let page = repo.read(PAGE)?;
    let mut missing = named(&page);
    for path in repo.files()? {
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(text) = repo.read_if_text(&path)?
        {
            missing.retain(|name| !has(&text, name));
        }
    }
    let findings = missing
        .into_iter()
        .map(|name| format!("{PAGE}: {name}"))
        .collect();
    none_found("the museum names tests that are not there", findings)
}

/// The tests of the last column: names in it with an underscore.
fn named(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter_map(|line| line.strip_suffix('|'));
    let cells = rows.filter_map(|row| row.rsplit('|').next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.filter(|name| name.contains('_')).collect()
}

/// Whether a source has a function of that name: a test, or a check of a battery.
fn has(text: &str, name: &str) -> bool {
    text.contains(&format!("fn {name}("))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_last_column_are_read() {
        let page = "| a `not_me` | b |\n| bug | lesson | `one_test`, `a.point`, `two_tests` |\n";
        assert_eq!(named(page), BTreeSet::from(["one_test", "two_tests"]));
    }

    #[test]
    fn a_function_is_a_test_and_a_mention_is_none() {
        assert!(has("async fn one_test(world: World) {}", "one_test"));
        assert!(!has("// one_test is not here", "one_test"));
    }
}
