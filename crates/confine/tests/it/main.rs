//! Attacks on files, commands and scans, against the real kernel.

#![expect(
    clippy::disallowed_methods,
    reason = "a test of the host's files and processes sets them up directly"
)]

mod files;
mod links;
mod processes;
mod restores;
mod scans;
mod support;

/// A file that is not listed above would silently not be run.
#[test]
fn no_test_file_is_forgotten() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            "files.rs",
            "links.rs",
            "main.rs",
            "processes.rs",
            "restores.rs",
            "scans.rs",
            "support.rs"
        ]
    );
}
