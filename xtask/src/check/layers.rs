//! The manifests and `ARCHITECTURE.md` agree with the table of layers.

use crate::{
    failure::{Failure, none_found},
    layering,
    metadata::Metadata,
    repo::Repo,
};

/// Compares the workspace and the page with the table.
pub(crate) fn check(repo: &Repo) -> Result<(), Failure> {
    let metadata = Metadata::of_workspace(repo)?;
    let mut findings = layering::violations(&layering::edges(&metadata));
    findings.extend(page_differs(
        &repo.read("ARCHITECTURE.md")?,
        &layering::crates(&metadata),
    ));
    none_found("layering (xtask/src/layering.rs has the table)", findings)
}

/// Says where the page's table of crates differs from the real one. The page has the crates that exist, and no others.
fn page_differs(page: &str, existing: &[String]) -> Vec<String> {
    let rows: Vec<Row<'_>> = page.lines().filter_map(row).collect();
    let mut findings = Vec::new();
    for name in existing {
        let Some(layer) = layering::find(name) else {
            findings.push(format!("crate `{name}` is not in the table"));
            continue;
        };
        let Some(row) = rows.iter().find(|row| row.name == name) else {
            findings.push(format!("ARCHITECTURE.md has no row for `{name}`"));
            continue;
        };
        let real: Vec<&str> = layer
            .may_use
            .iter()
            .copied()
            .filter(|used| existing.iter().any(|one| one == used))
            .collect();
        if row.may_use != real {
            findings.push(format!(
                "ARCHITECTURE.md lets `{name}` use [{}], the table [{}]",
                row.may_use.join(", "),
                real.join(", ")
            ));
        }
    }
    for row in rows
        .iter()
        .filter(|row| !existing.iter().any(|name| name == row.name))
    {
        findings.push(format!(
            "ARCHITECTURE.md has a row for `{}`, which does not exist",
            row.name
        ));
    }
    findings
}

struct Row<'a> {
    name: &'a str,
    may_use: Vec<&'a str>,
}

/// Reads a row of the form: layer, crate between backquotes, what it is, crates between backquotes.
fn row(line: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = line
        .trim()
        .strip_prefix('|')?
        .strip_suffix('|')?
        .split('|')
        .map(str::trim)
        .collect();
    let [_, name, _, used] = cells[..] else {
        return None;
    };
    let name = name.strip_prefix('`')?.strip_suffix('`')?;
    // Between pairs of backquotes stand the odd pieces.
    let may_use = used.split('`').skip(1).step_by(2).collect();
    Some(Row { name, may_use })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
| layer | crate | what it is | may depend on |
| --- | --- | --- | --- |
| 0 | `core` | words | – |
| 1 | `journal` | a port | `core` |
| 2 | `agent` | the loop | `core` |
";

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_page_that_agrees_is_silent() {
        assert_eq!(
            page_differs(PAGE, &names(&["core", "journal", "agent"])),
            Vec::<String>::new()
        );
    }

    #[test]
    fn differences_are_named() {
        assert_eq!(
            page_differs(PAGE, &names(&["core", "confine", "agent"])),
            [
                "ARCHITECTURE.md has no row for `confine`",
                "ARCHITECTURE.md lets `agent` use [core], the table [core, confine]",
                "ARCHITECTURE.md has a row for `journal`, which does not exist",
            ]
        );
    }

    #[test]
    fn the_real_page_agrees() {
        let repo = Repo::find();
        assert!(
            repo.read("ARCHITECTURE.md")
                .expect("a page")
                .lines()
                .filter_map(row)
                .count()
                >= 9
        );
        check(&repo).expect("the page, the manifests and the table agree");
    }
}
