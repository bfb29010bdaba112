//! Which crate may depend on which: the one table, and its comparison with what the manifests say.
//!
//! Dependencies point down. A new edge is an architectural change: it needs an ADR (`docs/adr/`) and a line here, and
//! `ARCHITECTURE.md` shows the same table to people. Crates that do not exist yet may stand in the table.

use crate::metadata::{DependencyKind, Metadata};

/// One crate of the table, named by its folder.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    /// How high it stands. Development crates stand above everything and nothing stands on them.
    pub(crate) height: u8,
    pub(crate) may_use: &'static [&'static str],
}

/// The height of crates that exist for development only.
pub(crate) const DEVELOPMENT: u8 = 9;

/// The crate that tests of any crate may use.
const TESTKIT: &str = "testkit";

/// Every crate, bottom up.
pub(crate) const TABLE: &[Layer] = &[
    layer("core", 0, &[]),
    layer("confine", 1, &["core"]),
    layer("wire", 1, &["core"]),
    layer("journal", 1, &["core"]),
    layer("agent", 2, &["core", "confine"]),
    layer("engine", 3, &["core", "agent", "journal"]),
    layer("router", 3, &["core", "wire"]),
    layer("runtime", 3, &["core", "confine", "wire"]),
    layer("harness", 3, &["core", "confine", "wire"]),
    layer("evals", 3, &["core", "agent"]),
    layer("store", 4, &["core", "journal", "evals"]),
    layer(
        "control-plane",
        4,
        &["core", "journal", "engine", "evals", "wire"],
    ),
    layer("data-plane", 4, &["core", "journal", "engine", "wire"]),
    layer(
        "cli",
        5,
        &[
            "core",
            "confine",
            "wire",
            "journal",
            "agent",
            "engine",
            "router",
            "runtime",
            "harness",
            "evals",
            "store",
            "control-plane",
            "data-plane",
        ],
    ),
    layer("python", 5, &["core", "agent", "router", "evals"]),
    layer(TESTKIT, DEVELOPMENT, &["core", "agent", "journal", "engine"]),
    layer("xtask", DEVELOPMENT, &[]),
];

const fn layer(name: &'static str, height: u8, may_use: &'static [&'static str]) -> Layer {
    Layer {
        name,
        height,
        may_use,
    }
}

/// A dependency of one of our crates on another, both named by their folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) kind: Option<DependencyKind>,
}

/// Finds a crate in the table.
pub(crate) fn find(name: &str) -> Option<&'static Layer> {
    TABLE.iter().find(|layer| layer.name == name)
}

/// Names the crates of the workspace by their folder.
pub(crate) fn crates(metadata: &Metadata) -> Vec<String> {
    metadata
        .packages
        .iter()
        .map(|package| folder(&package.name).to_owned())
        .collect()
}

/// Lists the edges between crates of the workspace.
pub(crate) fn edges(metadata: &Metadata) -> Vec<Edge> {
    let ours: Vec<&str> = metadata
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut edges = Vec::new();
    for package in &metadata.packages {
        for dependency in package
            .dependencies
            .iter()
            .filter(|one| ours.contains(&one.name.as_str()))
        {
            edges.push(Edge {
                from: folder(&package.name).to_owned(),
                to: folder(&dependency.name).to_owned(),
                kind: dependency.kind,
            });
        }
    }
    edges
}

/// Says which edges the table does not allow.
pub(crate) fn violations(edges: &[Edge]) -> Vec<String> {
    edges.iter().filter_map(violation).collect()
}

fn violation(edge: &Edge) -> Option<String> {
    let Some(from) = find(&edge.from) else {
        return Some(format!("crate `{}` is not in the table", edge.from));
    };
    let Some(to) = find(&edge.to) else {
        return Some(format!("crate `{}` is not in the table", edge.to));
    };
    let allowed = match edge.kind {
        None | Some(DependencyKind::Build) => from.may_use.contains(&to.name),
        Some(DependencyKind::Dev) => {
            to.name == TESTKIT || from.may_use.contains(&to.name) || to.height < from.height
        }
    };
    let kind = match edge.kind {
        None => "",
        Some(DependencyKind::Dev) => " (in dev-dependencies)",
        Some(DependencyKind::Build) => " (in build-dependencies)",
    };
    (!allowed).then(|| format!("`{}` must not depend on `{}`{kind}", edge.from, edge.to))
}

fn folder(package: &str) -> &str {
    package.strip_prefix("portolan-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Repo;

    fn edge(from: &str, to: &str, kind: Option<DependencyKind>) -> Edge {
        Edge {
            from: from.to_owned(),
            to: to.to_owned(),
            kind,
        }
    }

    #[test]
    fn the_table_points_down() {
        for layer in TABLE {
            for used in layer.may_use {
                let below =
                    find(used).unwrap_or_else(|| panic!("{} uses {used}, which is nowhere", layer.name));
                assert!(
                    below.height < layer.height,
                    "{} may use {used}, which is not below it",
                    layer.name
                );
            }
        }
    }

    #[test]
    fn the_workspace_keeps_to_the_table() {
        let metadata = Metadata::of_workspace(&Repo::find()).expect("cargo reads its own workspace");
        let edges = edges(&metadata);
        assert!(edges.len() >= 10, "only {} edges were seen", edges.len());
        assert!(edges.contains(&edge("engine", "journal", None)), "{edges:?}");
        assert_eq!(violations(&edges), Vec::<String>::new());
    }

    #[test]
    fn a_planted_edge_is_found() {
        let planted = [
            (
                edge("core", "journal", None),
                "`core` must not depend on `journal`",
            ),
            (
                edge("control-plane", "store", None),
                "`control-plane` must not depend on `store`",
            ),
            (
                edge("agent", "journal", Some(DependencyKind::Build)),
                "`agent` must not depend on `journal` (in build-dependencies)",
            ),
            (
                edge("core", "agent", Some(DependencyKind::Dev)),
                "`core` must not depend on `agent` (in dev-dependencies)",
            ),
            (edge("cli", "testkit", None), "`cli` must not depend on `testkit`"),
            (
                edge("core", "surprise", None),
                "crate `surprise` is not in the table",
            ),
        ];
        for (edge, expected) in planted {
            assert_eq!(violations(&[edge]), [expected]);
        }
    }

    #[test]
    fn tests_may_use_the_testkit_and_what_lies_below() {
        let allowed = [
            edge("journal", "testkit", Some(DependencyKind::Dev)),
            edge("control-plane", "agent", Some(DependencyKind::Dev)),
        ];
        assert_eq!(violations(&allowed), Vec::<String>::new());
    }
}
