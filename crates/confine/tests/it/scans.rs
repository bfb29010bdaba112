use crate::support::Sandbox;
use portolan_confine::{ScanError, ScanLimits, Scanner};
use portolan_core::{
    artifact::Operation,
    digest::Digest,
    manifest::{Entry, Manifest},
};
use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
};

fn scan(sandbox: &Sandbox) -> Manifest {
    Scanner::default().scan(&sandbox.root()).unwrap()
}

fn file(content: &[u8]) -> Entry {
    Entry::File {
        digest: Digest::of(content),
        size: content.len() as u64,
        executable: false,
    }
}

#[test]
fn everything_is_listed_and_nothing_followed() {
    let sandbox = Sandbox::new();
    sandbox.file("a", "alpha");
    sandbox.file("a.b", "");
    sandbox.file("d/.hidden", "h");
    let tool = sandbox.file("d/tool", "t");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(sandbox.host("empty/e")).unwrap();
    sandbox.link("out", "../outside");
    sandbox.link("d/loop", "..");
    sandbox.fifo("pipe");
    let executable = Entry::File {
        digest: Digest::of(b"t"),
        size: 1,
        executable: true,
    };
    let link = |target: &str| Entry::Link {
        target: target.to_owned(),
    };
    let expected: Vec<(String, Entry)> = [
        ("a", file(b"alpha")),
        ("a.b", file(b"")),
        ("d", Entry::Directory),
        ("d/.hidden", file(b"h")),
        ("d/loop", link("..")),
        ("d/tool", executable),
        ("empty", Entry::Directory),
        ("empty/e", Entry::Directory),
        ("out", link("../outside")),
        (
            "pipe",
            Entry::Unreadable {
                reason: "it is a pipe".to_owned(),
            },
        ),
    ]
    .map(|(path, entry)| (path.to_owned(), entry))
    .into();
    assert_eq!(scan(&sandbox).entries.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn sizes_around_the_buffer_are_hashed_right() {
    let sandbox = Sandbox::new();
    let content: Vec<u8> = (0..400_000_u32)
        .map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1])
        .collect();
    let sizes = [0, 1, 4_096, 131_071, 131_072, 131_073, 262_144, 400_000];
    for size in sizes {
        sandbox.file(&size.to_string(), &content[..size]);
    }
    let manifest = scan(&sandbox);
    for size in sizes {
        assert_eq!(
            manifest.entries[&size.to_string()],
            file(&content[..size]),
            "{size}"
        );
    }
}

#[test]
fn two_threads_find_what_one_finds() {
    let sandbox = Sandbox::new();
    let mut expected = std::collections::BTreeMap::new();
    for number in 0..700_u32 {
        // One directory with many files, and many directories with few.
        let path = if number < 500 {
            format!("many/{number}")
        } else {
            format!("d{}/e{}/f", number % 50, number)
        };
        sandbox.file(&path, number.to_le_bytes());
        expected.insert(path, file(&number.to_le_bytes()));
    }
    let mut scanner = Scanner::default();
    for _ in 0..3 {
        let mut manifest = scanner.scan(&sandbox.root()).unwrap();
        manifest.entries.retain(|_, entry| *entry != Entry::Directory);
        assert_eq!(manifest.entries, expected);
    }
}

/// Each change is made at once after a scan and keeps the size; some also put the modification time back.
#[test]
fn no_change_is_missed() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    let host = sandbox.file("a", "00");
    sandbox.file("b", "xx");
    let mut scanner = Scanner::default();
    let mut before = scanner.scan(&root).unwrap();
    for round in 1..=60_u32 {
        let content = format!("{round:02}");
        let time = fs::metadata(&host).unwrap().modified().unwrap();
        match round % 3 {
            0 => {
                // The same name, the same size, another file.
                fs::write(sandbox.host("other"), &content).unwrap();
                fs::rename(sandbox.host("other"), &host).unwrap();
            }
            _ => fs::write(&host, &content).unwrap(),
        }
        fs::File::options()
            .write(true)
            .open(&host)
            .unwrap()
            .set_modified(time)
            .unwrap();
        let after = scanner.scan(&root).unwrap();
        assert_eq!(after.entries["a"], file(content.as_bytes()), "round {round}");
        let artifacts = after.artifacts_since(&before);
        assert_eq!(artifacts.len(), 1, "round {round}");
        assert_eq!(
            (artifacts[0].path.as_str(), artifacts[0].operation),
            ("a", Operation::Modified)
        );
        before = after;
    }
}

#[test]
fn a_settled_file_that_changes_is_hashed_again() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    let host = sandbox.file("a", "old");
    let mut scanner = Scanner::default();
    // Until the file system's clock has moved far enough for the scanner to trust what it knows.
    let made = fs::metadata(&host).unwrap().modified().unwrap();
    while made.elapsed().unwrap_or_default().as_millis() < 120 {
        std::thread::yield_now();
    }
    scanner.scan(&root).unwrap();
    fs::write(&host, "new").unwrap();
    fs::File::options()
        .write(true)
        .open(&host)
        .unwrap()
        .set_modified(made)
        .unwrap();
    assert_eq!(scanner.scan(&root).unwrap().entries["a"], file(b"new"));
    fs::set_permissions(&host, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(
        scanner.scan(&root).unwrap().entries["a"],
        Entry::File { executable: true, .. }
    ));
}

#[test]
fn what_cannot_be_read_is_told() {
    let sandbox = Sandbox::new();
    sandbox.file("a", "1");
    let large = fs::File::create(sandbox.host("large")).unwrap();
    large.set_len(1 << 42).unwrap();
    let limits = ScanLimits {
        file_bytes: 1 << 20,
        ..ScanLimits::default()
    };
    let mut scanner = Scanner::new(limits);
    let before = scanner.scan(&sandbox.root()).unwrap();
    assert_eq!(before.entries["a"], file(b"1"));
    let Entry::Unreadable { reason } = &before.entries["large"] else {
        panic!("{before:?}")
    };
    assert!(
        reason.starts_with("it is too large (4398046511104 bytes"),
        "{reason}"
    );
    assert_eq!(scanner.scan(&sandbox.root()).unwrap(), before);
    std::os::unix::fs::FileExt::write_at(&large, b"x", 7).unwrap();
    let after = scanner.scan(&sandbox.root()).unwrap();
    assert_eq!(
        after.artifacts_since(&before).len(),
        1,
        "a change of what is not hashed shows"
    );
}

#[test]
fn a_file_without_rights_costs_no_other_evidence() {
    let sandbox = Sandbox::new();
    sandbox.file("a", "1");
    let closed = sandbox.file("closed", "2");
    fs::create_dir(sandbox.host("d")).unwrap();
    sandbox.file("d/b", "3");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(sandbox.host("d"), fs::Permissions::from_mode(0o000)).unwrap();
    let manifest = scan(&sandbox);
    assert_eq!(manifest.entries["a"], file(b"1"));
    let privileged = fs::read(&closed).is_ok();
    // A privileged user reads them all the same.
    for path in ["closed", "d"] {
        assert_eq!(
            matches!(manifest.entries[path], Entry::Unreadable { .. }),
            !privileged,
            "{manifest:?}"
        );
    }
    fs::set_permissions(sandbox.host("d"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_number_of_entries_is_bounded() {
    let sandbox = Sandbox::new();
    for number in 0..12 {
        sandbox.file(&format!("{}/{number}", number % 3), "");
    }
    let scan = |entries| {
        Scanner::new(ScanLimits {
            entries,
            ..ScanLimits::default()
        })
        .scan(&sandbox.root())
    };
    assert_eq!(scan(15).unwrap().entries.len(), 15);
    assert!(matches!(scan(14), Err(ScanError::TooManyEntries { limit: 14 })));
    assert!(matches!(scan(0), Err(ScanError::TooManyEntries { limit: 0 })));
}

#[test]
fn the_work_of_one_scan_is_bounded() {
    let sandbox = Sandbox::new();
    for number in 0..4 {
        sandbox.file(&number.to_string(), [0; 100]);
    }
    let limits = ScanLimits {
        total_bytes: 250,
        ..ScanLimits::default()
    };
    let manifest = Scanner::new(limits).scan(&sandbox.root()).unwrap();
    let hashed = manifest
        .entries
        .values()
        .filter(|entry| matches!(entry, Entry::File { .. }));
    assert_eq!((manifest.entries.len(), hashed.count()), (4, 2));
}

#[test]
fn a_tree_deeper_than_a_path_is_cut_and_told() {
    let sandbox = Sandbox::new();
    let open = |at: &rustix::fd::OwnedFd| {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        rustix::fs::openat(at, "d", flags, rustix::fs::Mode::empty()).unwrap()
    };
    let mut at = rustix::fs::open(
        sandbox.host(""),
        rustix::fs::OFlags::PATH,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    for _ in 0..400 {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::from_raw_mode(0o777)).unwrap();
        at = open(&at);
    }
    sandbox.file("a", "1");
    let manifest = scan(&sandbox);
    assert_eq!(manifest.entries["a"], file(b"1"));
    let told: Vec<_> = manifest
        .entries
        .values()
        .filter(|entry| matches!(entry, Entry::Unreadable { .. }))
        .collect();
    assert_eq!(
        told,
        [&Entry::Unreadable {
            reason: "its paths are too long".to_owned()
        }]
    );
    assert_eq!(manifest.entries.len(), 1 + portolan_confine::path::MAX_PARTS);
}

#[test]
fn names_of_any_bytes_have_a_place() {
    let sandbox = Sandbox::new();
    for name in [&b"\xff"[..], b"\\xFF", b"new\nline"] {
        fs::write(sandbox.host("").join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let manifest = scan(&sandbox);
    let names: Vec<_> = manifest.entries.keys().map(String::as_str).collect();
    assert_eq!(names, ["\\x5CxFF", "\\xFF", "new\nline"]);
    assert_eq!(manifest.entries["\\xFF"], file(b"\xff"));
}
