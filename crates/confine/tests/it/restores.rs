use crate::support::Sandbox;
use portolan_confine::{RestoreError, RestoreReport, Scanner, restore};
use portolan_core::{
    digest::Digest,
    manifest::{Entry, Manifest},
};
use std::{
    collections::HashMap,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
};

/// Contents by their digest, and how often one was asked for.
#[derive(Default)]
struct Contents {
    known: HashMap<Digest, Vec<u8>>,
    fetched: usize,
}

impl Contents {
    fn of(contents: &[&[u8]]) -> Self {
        let known = contents
            .iter()
            .map(|content| (Digest::of(content), content.to_vec()))
            .collect();
        Self { known, fetched: 0 }
    }

    fn restore(&mut self, sandbox: &Sandbox, manifest: &Manifest) -> Result<RestoreReport, RestoreError> {
        restore(
            &sandbox.root(),
            manifest,
            &mut Scanner::default(),
            &mut |digest| {
                self.fetched += 1;
                self.known
                    .get(digest)
                    .cloned()
                    .ok_or_else(|| "no such content".into())
            },
        )
    }
}

fn scan(sandbox: &Sandbox) -> Manifest {
    Scanner::default().scan(&sandbox.root()).unwrap()
}

fn original() -> (Sandbox, Contents) {
    let sandbox = Sandbox::new();
    sandbox.file("a", "alpha");
    sandbox.file("d/b", "beta");
    let tool = sandbox.file("d/tool", "tool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(sandbox.host("empty/e")).unwrap();
    sandbox.link("out", "../outside");
    fs::write(sandbox.host("").join(std::ffi::OsStr::from_bytes(b"\xff")), "odd").unwrap();
    (sandbox, Contents::of(&[b"alpha", b"beta", b"tool", b"odd"]))
}

#[test]
fn an_empty_directory_becomes_the_manifest() {
    let (sandbox, mut contents) = original();
    let manifest = scan(&sandbox);
    let copy = Sandbox::new();
    let report = contents.restore(&copy, &manifest).unwrap();
    assert_eq!(
        report,
        RestoreReport {
            written: 8,
            removed: 0,
            skipped: Vec::new()
        }
    );
    assert_eq!(scan(&copy), manifest);
    assert_eq!(
        fs::metadata(copy.host("d/tool")).unwrap().permissions().mode() & 0o111,
        0o111
    );
    assert_eq!(contents.fetched, 4);
    copy.assert_outside_untouched();
}

#[test]
fn only_what_differs_is_touched() {
    let (sandbox, mut contents) = original();
    let manifest = scan(&sandbox);
    let untouched = fs::metadata(sandbox.host("a")).unwrap();
    assert_eq!(
        contents.restore(&sandbox, &manifest).unwrap(),
        RestoreReport::default()
    );
    sandbox.file("d/b", "BETA");
    sandbox.file("new/deep/file", "x");
    fs::set_permissions(sandbox.host("d/tool"), fs::Permissions::from_mode(0o644)).unwrap();
    let report = contents.restore(&sandbox, &manifest).unwrap();
    assert_eq!((report.written, report.removed, contents.fetched), (2, 3, 1));
    assert_eq!(scan(&sandbox), manifest);
    let same = fs::metadata(sandbox.host("a")).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!(
        (same.ino(), same.ctime_nsec()),
        (untouched.ino(), untouched.ctime_nsec())
    );
}

#[test]
fn kinds_change_in_every_direction() {
    let (sandbox, mut contents) = original();
    let manifest = scan(&sandbox);
    // A file becomes a directory, a directory a file, a directory a link, a link a directory.
    fs::remove_file(sandbox.host("a")).unwrap();
    sandbox.file("a/x/y", "1");
    fs::remove_dir_all(sandbox.host("empty")).unwrap();
    sandbox.file("empty", "2");
    fs::remove_dir_all(sandbox.host("d")).unwrap();
    sandbox.link("d", "../outside");
    fs::remove_file(sandbox.host("out")).unwrap();
    sandbox.file("out/secret.txt", "inside");
    sandbox.fifo("pipe");
    contents.restore(&sandbox, &manifest).unwrap();
    assert_eq!(scan(&sandbox), manifest);
    sandbox.assert_outside_untouched();
}

#[test]
fn a_link_is_replaced_and_not_written_through() {
    let (sandbox, mut contents) = original();
    let manifest = scan(&sandbox);
    fs::remove_file(sandbox.host("a")).unwrap();
    sandbox.link("a", "../outside/secret.txt");
    sandbox.link("more", "../outside/secret.txt");
    contents.restore(&sandbox, &manifest).unwrap();
    assert_eq!(scan(&sandbox), manifest);
    sandbox.assert_outside_untouched();
}

#[test]
fn directories_without_rights_are_opened() {
    let (sandbox, mut contents) = original();
    let manifest = scan(&sandbox);
    sandbox.file("d/deep/deeper/x", "1");
    for (path, mode) in [
        ("d/deep/deeper", 0o000),
        ("d/deep", 0o000),
        ("d", 0o555),
        ("empty", 0o000),
    ] {
        fs::set_permissions(sandbox.host(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    contents.restore(&sandbox, &manifest).unwrap();
    assert_eq!(scan(&sandbox), manifest);
}

#[test]
fn implied_directories_are_made() {
    let sandbox = Sandbox::new();
    let entry = Entry::File {
        digest: Digest::of(b"1"),
        size: 1,
        executable: false,
    };
    let manifest = Manifest {
        entries: [("a/b/c".to_owned(), entry)].into(),
    };
    Contents::of(&[b"1"]).restore(&sandbox, &manifest).unwrap();
    assert_eq!(fs::read(sandbox.host("a/b/c")).unwrap(), b"1");
}

#[test]
fn what_is_unknown_is_left_alone() {
    let (sandbox, mut contents) = original();
    sandbox.fifo("pipe");
    let manifest = scan(&sandbox);
    let copy = Sandbox::new();
    copy.file("pipe/kept", "1");
    let report = contents.restore(&copy, &manifest).unwrap();
    assert_eq!(report.skipped, ["pipe"]);
    assert_eq!(fs::read(copy.host("pipe/kept")).unwrap(), b"1");
}

#[test]
fn a_hostile_manifest_touches_nothing() {
    let sandbox = Sandbox::new();
    sandbox.file("kept", "1");
    let file = Entry::File {
        digest: Digest::of(b"pwned"),
        size: 5,
        executable: false,
    };
    let link = Entry::Link {
        target: "../outside".to_owned(),
    };
    for entries in [
        vec![("../outside/new", file.clone())],
        vec![("/tmp/portolan-hostile", file.clone())],
        vec![("d", link), ("d/new", file)],
    ] {
        let manifest = Manifest {
            entries: entries
                .into_iter()
                .map(|(path, entry)| (path.to_owned(), entry))
                .collect(),
        };
        let error = Contents::of(&[b"pwned"])
            .restore(&sandbox, &manifest)
            .unwrap_err();
        assert!(
            matches!(error, RestoreError::Path(_) | RestoreError::Inconsistent { .. }),
            "{error:?}"
        );
        assert!(sandbox.host("kept").exists());
    }
    sandbox.assert_outside_untouched();
}

#[test]
fn wrong_content_is_refused() {
    let (sandbox, mut contents) = original();
    let manifest = scan(&sandbox);
    sandbox.file("a", "changed");
    contents.known.insert(Digest::of(b"alpha"), b"other".to_vec());
    let error = contents.restore(&sandbox, &manifest).unwrap_err();
    assert!(
        matches!(&error, RestoreError::WrongContent { path } if path.as_str() == "a"),
        "{error:?}"
    );
    contents.known.clear();
    let error = contents.restore(&sandbox, &manifest).unwrap_err();
    assert!(matches!(&error, RestoreError::Fetch { .. }), "{error:?}");
    assert_eq!(fs::read(sandbox.host("a")).unwrap(), b"changed");
}
