//! The project of the demo: its files, and running its tests outside of any agent.

use crate::{Failure, failure::OrFail as _, folder};
use serde::Serialize;
use std::{path::Path, process::Stdio, time::Duration};
use tokio::process::Command;

macro_rules! files {
    ($($path:literal)*) => {
        /// Path and content of every file.
        pub(super) const FILES: &[(&str, &str)] = &[$(
            ($path, include_str!(concat!("../../../../../examples/fixer/project/", $path))),
        )*];
    };
}

files! {
    "CHANGELOG.md" "README.md" "VERSION"
    "bin/relnotes.sh"
    "docs/durations.md" "docs/format.md"
    "lib/duration.sh" "lib/semver.sh" "lib/slug.sh"
    "run-tests.sh"
    "tests/check.sh" "tests/duration_test.sh" "tests/relnotes_test.sh" "tests/semver_test.sh" "tests/slug_test.sh"
}

/// The agent that repairs it.
pub(super) const AGENT: &str = include_str!("../../../../../examples/fixer/agent.toml");

/// The command with which the project is tested; the agent's is the same.
const TEST: [&str; 2] = ["sh", "run-tests.sh"];
const TIMEOUT: Duration = Duration::from_secs(60);

/// A run of the project's tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestRun {
    pub(super) exit_code: Option<i32>,
    /// The last line of the output, which counts.
    pub(super) says: String,
}

impl TestRun {
    pub(super) fn passes(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// Writes the agent and its project below a directory.
pub(super) fn write(directory: &Path) -> Result<(), Failure> {
    folder::write(directory, "agent.toml", AGENT.as_bytes())?;
    for (path, text) in FILES {
        folder::write(&directory.join("project"), path, text.as_bytes())?;
    }
    Ok(())
}

/// The original content of a file.
pub(super) fn original(path: &str) -> Option<&'static str> {
    FILES
        .iter()
        .find(|(file, _)| *file == path)
        .map(|(_, text)| *text)
}

/// Runs the tests in a directory.
pub(super) async fn test(directory: &Path) -> Result<TestRun, Failure> {
    let mut command = Command::new(TEST[0]);
    command
        .args(&TEST[1..])
        .current_dir(directory)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(TIMEOUT, command.output())
        .await
        .map_err(|_| Failure::unavailable("the tests of the project do not end"))?;
    let output = ended
        .or_unavailable(|| "the tests of the project cannot be run".to_owned())
        .map_err(|failure| failure.hint("the demo needs the program sh"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(TestRun {
        exit_code: output.status.code(),
        says: text.lines().last().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_project_is_really_broken() {
        let directory = tempfile::tempdir().expect("made");
        write(directory.path()).expect("written");
        let ran = test(&directory.path().join("project")).await.expect("runs");
        assert_eq!(
            (ran.exit_code, ran.says.as_str()),
            (Some(1), "11 passed, 4 failed")
        );
        assert!(FILES.len() >= 10);
    }

    #[test]
    fn every_file_of_the_example_is_in_the_demo() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fixer/project");
        let found = folder::inline(Path::new(root)).expect("readable");
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        let embedded: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
        assert_eq!(names, embedded);
    }
}
