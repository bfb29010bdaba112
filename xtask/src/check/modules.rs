//! Every source file is compiled: a test file that no `mod` line names would be green for ever.
//!
//! It also keeps the integration tests of a crate in one binary, which is linked once.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{
    failure::{Failure, none_found},
    metadata::{Metadata, Target},
    repo::Repo,
};

/// Looks for source files that nothing compiles and for crates with several test binaries.
pub(crate) fn check(repo: &Repo) -> Result<(), Failure> {
    let metadata = Metadata::of_workspace(repo)?;
    let mut compiled = BTreeSet::new();
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let tests = package
            .targets
            .iter()
            .filter(|target| is_ordinary_test(target))
            .count();
        if tests > 1 {
            findings.push(format!(
                "{} has {tests} test binaries; one is enough: tests/it/main.rs",
                package.name
            ));
        }
        for target in &package.targets {
            follow(&target.src_path, &mut compiled)?;
        }
    }
    for path in repo.files()? {
        if in_a_package(&path) && !compiled.contains(&repo.root().join(&path)) {
            findings.push(format!("{} is compiled by nobody", path.display()));
        }
    }
    none_found("a source file must be part of a build", findings)
}

/// Holds for test binaries of the kind that a crate has one of. One that needs a feature needs more than the others.
fn is_ordinary_test(target: &Target) -> bool {
    target.required_features.is_empty() && target.kind.iter().any(|kind| kind == "test")
}

/// Holds for sources of a package; what lies in a `fixtures` folder is data.
fn in_a_package(path: &Path) -> bool {
    let source = path.extension().is_some_and(|extension| extension == "rs");
    let ours = path.starts_with("crates") || path.starts_with("xtask");
    source && ours && !path.components().any(|part| part.as_os_str() == "fixtures")
}

/// Collects a root file and every file that its `mod` lines lead to.
fn follow(root: &Path, compiled: &mut BTreeSet<PathBuf>) -> Result<(), Failure> {
    let mut waiting = vec![(root.to_owned(), parent(root))];
    while let Some((file, folder)) = waiting.pop() {
        if !compiled.insert(file.clone()) {
            continue;
        }
        let source = std::fs::read_to_string(&file).map_err(|source| Failure::File {
            path: file.clone(),
            source,
        })?;
        for module in declared(&source) {
            waiting.extend(locate(&module, &file, &folder));
        }
    }
    Ok(())
}

/// A `mod name;` line, with the path that an attribute gives it.
#[derive(Debug, PartialEq, Eq)]
struct Module {
    name: String,
    path: Option<String>,
}

fn declared(source: &str) -> Vec<Module> {
    let mut modules = Vec::new();
    let mut path = None;
    for line in source.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path = rest.split('"').next().map(str::to_owned);
            continue;
        }
        if let Some(name) = module_name(line) {
            modules.push(Module {
                name: name.to_owned(),
                path: path.take(),
            });
        }
    }
    modules
}

fn module_name(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let name = line.strip_prefix("mod ")?.split_once(';')?.0.trim();
    name.chars()
        .all(|one| one.is_alphanumeric() || one == '_')
        .then_some(name)
}

/// Finds a module's file and the folder in which its own modules lie.
fn locate(module: &Module, declared_in: &Path, folder: &Path) -> Option<(PathBuf, PathBuf)> {
    if let Some(path) = &module.path {
        let file = parent(declared_in).join(path);
        let below = parent(&file);
        return file.is_file().then_some((file, below));
    }
    let below = folder.join(&module.name);
    let candidates = [folder.join(format!("{}.rs", module.name)), below.join("mod.rs")];
    let file = candidates.into_iter().find(|candidate| candidate.is_file())?;
    Some((file, below))
}

fn parent(file: &Path) -> PathBuf {
    file.parent().map_or_else(PathBuf::new, Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mod_lines_are_read() {
        let source = "mod plain;\npub mod open; // why\npub(crate) mod inner;\nmod here { }\n#[path = \"odd/file.rs\"]\nmod odd;\n// mod gone;\nmodel();";
        let names: Vec<_> = declared(source)
            .into_iter()
            .map(|module| (module.name, module.path))
            .collect();
        assert_eq!(
            names,
            [
                ("plain".to_owned(), None),
                ("open".to_owned(), None),
                ("inner".to_owned(), None),
                ("odd".to_owned(), Some("odd/file.rs".to_owned())),
            ]
        );
    }

    #[test]
    fn a_forgotten_file_is_not_reached() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("known")).expect("a folder below");
        for (name, text) in [
            ("main.rs", "mod known;\nmod other;"),
            ("known.rs", "mod below;"),
            ("known/below.rs", ""),
            ("other.rs", ""),
            ("forgotten.rs", ""),
            ("known/forgotten.rs", ""),
        ] {
            std::fs::write(at(name), text).expect("a file");
        }
        let mut compiled = BTreeSet::new();
        follow(&at("main.rs"), &mut compiled).expect("all can be read");
        let expected = ["known/below.rs", "known.rs", "main.rs", "other.rs"].map(at);
        assert_eq!(compiled, BTreeSet::from(expected));
    }

    #[test]
    fn the_workspace_forgets_nothing() {
        let repo = Repo::find();
        let seen = repo
            .files()
            .expect("a listing")
            .into_iter()
            .filter(|path| in_a_package(path))
            .count();
        assert!(seen >= 40, "only {seen} sources were looked at");
        check(&repo).expect("every source is compiled");
    }
}
