//! `cargo xtask matrix`: at each fault point a real server dies, is started again, and everything that was promised holds.

use std::{fs, path::PathBuf};

use clap::{Args, ValueEnum};

use crate::{failure::Failure, program::Program, repo::Repo, test::FEATURES};

/// Names of points of the code, of which no release may contain one.
const NAMES: [&str; 3] = ["model.before-intent", "append.committed", "drain.begun"];

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// One store only.
    #[arg(long)]
    store: Option<Store>,
    /// One point only, by its name.
    #[arg(long, value_name = "NAME")]
    point: Option<String>,
    /// Also the second time that a point is passed; and an error, a delay and an unknown outcome where the table asks for them.
    #[arg(long)]
    full: bool,
    /// Write the table as JSON into this folder, one file a store.
    #[arg(long, value_name = "FOLDER")]
    report: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
}

/// Runs the cases that the arguments choose.
pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<(), Failure> {
    let tests = match arguments.store {
        None => "test(/^matrix::matrix_on/)",
        Some(Store::Sqlite) => "test(=matrix::matrix_on_sqlite)",
        Some(Store::Postgres) => "test(=matrix::matrix_on_postgres)",
    };
    let mut program = Program::cargo(repo)
        .args(["nextest", "run", "--workspace", "--features", FEATURES])
        .args(["--no-capture", "--filterset", tests]);
    if let Some(point) = &arguments.point {
        program = program.env("PORTOLAN_MATRIX_POINT", point);
    }
    if arguments.full {
        program = program.env("PORTOLAN_MATRIX_FULL", "1");
    }
    if let Some(folder) = &arguments.report {
        let folder = std::path::absolute(folder).map_err(|source| Failure::File {
            path: folder.clone(),
            source,
        })?;
        program = program.env("PORTOLAN_MATRIX_REPORT", folder);
    }
    program.run()
}

/// Each point kills once on both stores; and a release has no points.
pub(crate) fn lane(repo: &Repo) -> Result<(), Failure> {
    release_has_none(repo)?;
    let all = Arguments {
        store: None,
        point: None,
        full: false,
        report: None,
    };
    run(repo, &all)
}

/// Builds the crate that has the points as a release is built, with their feature on, and looks for their names.
fn release_has_none(repo: &Repo) -> Result<(), Failure> {
    let build = [
        "build",
        "--release",
        "--package",
        "portolan-core",
        "--features",
        "faults",
    ];
    let messages = Program::cargo(repo)
        .args(build)
        .args(["--message-format=json"])
        .capture()?;
    let library = library(&messages);
    let bytes = fs::read(&library).map_err(|source| Failure::File {
        path: library.clone(),
        source,
    })?;
    let findings: Vec<String> = NAMES
        .iter()
        .filter(|name| contains(&bytes, name.as_bytes()))
        .map(|name| format!("{}: {name}", library.display()))
        .collect();
    crate::failure::none_found("a release must not contain a failpoint", findings)
}

/// Where the crate was built to, as Cargo tells it.
fn library(messages: &[u8]) -> PathBuf {
    let lines = messages.split(|byte| *byte == b'\n');
    let mut built = lines.filter_map(|line| {
        let message: serde_json::Value = serde_json::from_slice(line).ok()?;
        let is_ours =
            message["target"]["name"] == "portolan_core" && message["reason"] == "compiler-artifact";
        let files = message["filenames"].as_array().filter(|_| is_ours)?;
        let rlib = files
            .iter()
            .filter_map(|file| file.as_str())
            .find(|file| file.ends_with(".rlib"));
        rlib.map(PathBuf::from)
    });
    built.next().unwrap_or_default()
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_in_what_cargo_says() {
        let messages = br#"{"reason":"compiler-artifact","target":{"name":"serde"},"filenames":["/s.rlib"]}
{"reason":"compiler-artifact","target":{"name":"portolan_core"},"filenames":["/a.rmeta","/a.rlib"]}
{"reason":"build-finished","success":true}"#;
        assert_eq!(library(messages), PathBuf::from("/a.rlib"));
    }

    #[test]
    fn a_name_is_found_among_bytes() {
        assert!(contains(b"\0\0drain.begun\0", b"drain.begun"));
        assert!(!contains(b"drain", b"drain.begun"));
    }
}
