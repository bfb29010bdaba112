use crate::support::{Sandbox, path};
use portolan_confine::{
    AccessError, RelPath,
    root::{EntryKind, MAX_READ_BYTES, WriteMode, Written},
};
use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    time::{Duration, Instant},
};

const BOTH: WriteMode = WriteMode::CreateOrEdit;

fn names(sandbox: &Sandbox, globs: &[&str], at: &str) -> Vec<String> {
    let listing = sandbox.denying(globs).files(&path(at)).unwrap();
    assert!(!listing.truncated);
    listing.entries.iter().map(ToString::to_string).collect()
}

#[test]
fn text_is_exact() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    let text = "\u{feff}a\r\nb\r\u{1f9ea}\0\n";
    assert_eq!(
        root.write(&path("d/e/a.txt"), text.as_bytes(), BOTH).unwrap(),
        Written::Created
    );
    assert_eq!(root.read_text(&path("d/e/a.txt")).unwrap(), text);
    assert_eq!(
        root.write(&path("./d//e/a.txt/"), b"", BOTH).unwrap(),
        Written::Replaced
    );
    assert_eq!(root.read(&path("d/e/a.txt")).unwrap(), b"");
    sandbox.file("bin", b"\xff\xfe");
    assert!(matches!(
        root.read_text(&path("bin")),
        Err(AccessError::NotUtf8(_))
    ));
    assert_eq!(root.read(&path("bin")).unwrap(), b"\xff\xfe");
}

#[test]
fn a_directory_is_no_file_and_a_file_no_directory() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    sandbox.file("d/a", "1");
    assert!(matches!(root.read(&path("d")), Err(AccessError::IsADirectory(_))));
    assert!(matches!(
        root.read(&RelPath::root()),
        Err(AccessError::IsADirectory(_))
    ));
    assert!(matches!(
        root.write(&path("d"), b"x", BOTH),
        Err(AccessError::IsADirectory(_))
    ));
    assert!(matches!(
        root.write(&RelPath::root(), b"x", BOTH),
        Err(AccessError::IsADirectory(_))
    ));
    assert!(matches!(
        root.remove(&path("d")),
        Err(AccessError::IsADirectory(_))
    ));
    assert!(matches!(
        root.remove(&RelPath::root()),
        Err(AccessError::IsADirectory(_))
    ));
    assert!(matches!(
        root.write(&path("d/a/x"), b"x", BOTH),
        Err(AccessError::NotADirectory(_))
    ));
    assert!(matches!(
        root.read(&path("d/a/x")),
        Err(AccessError::NotADirectory(_))
    ));
    assert!(matches!(root.read(&path("none")), Err(AccessError::NotFound(_))));
    assert!(matches!(
        root.directory(&path("d/a")),
        Err(AccessError::NotADirectory(_))
    ));
    assert_eq!(root.stat(&path("d/a")).unwrap().size, 1);
    root.remove(&path("d/a")).unwrap();
    assert!(matches!(root.stat(&path("d/a")), Err(AccessError::NotFound(_))));
    assert!(matches!(root.remove(&path("d/a")), Err(AccessError::NotFound(_))));
    assert_eq!(root.stat(&path("d")).unwrap().kind, EntryKind::Directory);
}

#[test]
fn a_write_mode_holds_and_tells_nothing() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    sandbox.file("old", "1");
    fs::create_dir(sandbox.host("dir")).unwrap();
    let denied = |at: &str, mode| root.write(&path(at), b"2", mode).unwrap_err().to_string();
    for (missing, present) in [("new", "old"), ("no/new", "old/x"), ("new", "dir")] {
        let present = denied(present, WriteMode::Create).replace(present, "P");
        let missing = denied(missing, WriteMode::Edit).replace(missing, "P");
        assert_eq!(
            (missing.as_str(), present.as_str()),
            ("access to `P` is denied", "access to `P` is denied")
        );
    }
    assert_eq!(fs::read_dir(sandbox.host("")).unwrap().count(), 2);
    assert_eq!(
        root.write(&path("new"), b"2", WriteMode::Create).unwrap(),
        Written::Created
    );
    assert_eq!(
        root.write(&path("old"), b"2", WriteMode::Edit).unwrap(),
        Written::Replaced
    );
    assert_eq!(fs::read(sandbox.host("old")).unwrap(), b"2");
}

#[test]
fn a_denied_write_changes_nothing() {
    let sandbox = Sandbox::new();
    let root = sandbox.denying(&["secret.txt", "private"]);
    for at in [
        "secret.txt",
        "d/secret.txt",
        "private/x",
        "private",
        "private/deep/x",
    ] {
        assert!(
            matches!(root.write(&path(at), b"x", BOTH), Err(AccessError::Denied(_))),
            "{at}"
        );
        assert!(
            matches!(root.read(&path(at)), Err(AccessError::Denied(_))),
            "{at}"
        );
        assert!(
            matches!(root.remove(&path(at)), Err(AccessError::Denied(_))),
            "{at}"
        );
        assert!(
            matches!(root.stat(&path(at)), Err(AccessError::Denied(_))),
            "{at}"
        );
    }
    assert_eq!(fs::read_dir(sandbox.host("")).unwrap().count(), 0);
}

#[test]
fn listings_leave_denied_names_out() {
    let sandbox = Sandbox::new();
    for at in [
        "a.txt",
        "secret.txt",
        "d/b.txt",
        "d/sub/c.txt",
        "private/deep/key",
    ] {
        sandbox.file(at, "");
    }
    assert_eq!(
        names(&sandbox, &[], ""),
        [
            "a.txt",
            "d/b.txt",
            "d/sub/c.txt",
            "private/deep/key",
            "secret.txt"
        ]
    );
    assert_eq!(
        names(&sandbox, &["secret.txt", "private"], ""),
        ["a.txt", "d/b.txt", "d/sub/c.txt"]
    );
    assert_eq!(names(&sandbox, &[], "d"), ["d/b.txt", "d/sub/c.txt"]);
    assert_eq!(names(&sandbox, &[], "d/b.txt"), ["d/b.txt"]);
    assert_eq!(names(&sandbox, &[], "di"), [""; 0]);
    assert_eq!(names(&sandbox, &["*"], ""), [""; 0]);
    let private = sandbox.denying(&["private"]).files(&path("private"));
    assert!(matches!(private, Err(AccessError::Denied(_))));
    let direct = sandbox
        .denying(&["secret.txt"])
        .list(&RelPath::root())
        .unwrap()
        .entries;
    let direct: Vec<_> = direct
        .iter()
        .map(|entry| (entry.path.as_str(), entry.kind))
        .collect();
    assert_eq!(
        direct,
        [
            ("a.txt", EntryKind::File),
            ("d", EntryKind::Directory),
            ("private", EntryKind::Directory)
        ]
    );
}

#[test]
fn names_of_any_bytes_round_trip() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    let odd = std::ffi::OsStr::from_bytes(b"a\xff\n\x1b[31m\\xFF");
    fs::write(sandbox.host("").join(odd), "1").unwrap();
    let listed = root.files(&RelPath::root()).unwrap().entries;
    assert_eq!(
        listed.iter().map(RelPath::as_str).collect::<Vec<_>>(),
        ["a\\xFF\n\u{1b}[31m\\x5CxFF"]
    );
    let again = path(listed[0].as_str());
    assert_eq!(root.read(&again).unwrap(), b"1");
    root.write(&again, b"2", WriteMode::Edit).unwrap();
    assert_eq!(fs::read(sandbox.host("").join(odd)).unwrap(), b"2");
    assert!(sandbox.denying(&["a*"]).read(&again).unwrap_err().is_denied());
}

#[test]
fn pipes_devices_and_sockets_are_no_files() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    sandbox.fifo("pipe");
    let _socket = std::os::unix::net::UnixListener::bind(sandbox.host("socket")).unwrap();
    let mut objects = vec!["pipe", "socket"];
    let device = rustix::fs::makedev(1, 5);
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        sandbox.host("zero"),
        rustix::fs::FileType::CharacterDevice,
        mode,
        device,
    );
    if made.is_ok() {
        // Only a privileged user can make a device.
        objects.push("zero");
    }
    let start = Instant::now();
    for at in objects {
        assert!(
            matches!(root.read(&path(at)), Err(AccessError::NotAFile(_))),
            "{at}"
        );
        assert!(
            matches!(root.write(&path(at), b"x", BOTH), Err(AccessError::NotAFile(_))),
            "{at}"
        );
        assert!(
            matches!(root.files(&path(at)), Err(AccessError::NotAFile(_))),
            "{at}"
        );
        assert!(
            matches!(root.directory(&path(at)), Err(AccessError::NotADirectory(_))),
            "{at}"
        );
    }
    assert_eq!(root.files(&RelPath::root()).unwrap().entries, []);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "an open waited for the other end"
    );
    sandbox.file("a", "benign");
    assert_eq!(root.read_text(&path("a")).unwrap(), "benign");
}

#[test]
fn sizes_are_bounded_without_reading() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    let sparse = fs::File::create(sandbox.host("sparse")).unwrap();
    sparse.set_len(1 << 42).unwrap();
    let error = root.read(&path("sparse")).unwrap_err();
    assert!(matches!(
        error,
        AccessError::TooLarge {
            limit: MAX_READ_BYTES,
            ..
        }
    ));
    sandbox.file("ten", "0123456789");
    assert_eq!(root.read_at_most(&path("ten"), 10).unwrap(), b"0123456789");
    assert!(matches!(
        root.read_at_most(&path("ten"), 9),
        Err(AccessError::TooLarge { limit: 9, .. })
    ));
    // Files of `/proc` have no size, so that only reading shows how long they are.
    let proc = portolan_confine::Root::open("/proc/self".as_ref()).unwrap();
    assert!(matches!(
        proc.read_at_most(&path("maps"), 16),
        Err(AccessError::TooLarge { .. })
    ));
    let large = vec![0; usize::try_from(MAX_READ_BYTES).unwrap() + 1];
    assert!(matches!(
        root.write(&path("large"), &large, BOTH),
        Err(AccessError::TooLarge { .. })
    ));
    assert!(!sandbox.host("large").exists());
}

#[test]
fn an_edit_keeps_rights_but_no_special_bits() {
    let sandbox = Sandbox::new();
    let host = sandbox.file("tool", "1");
    fs::set_permissions(&host, fs::Permissions::from_mode(0o6750)).unwrap();
    sandbox.root().write(&path("tool"), b"2", BOTH).unwrap();
    assert_eq!(fs::metadata(&host).unwrap().permissions().mode() & 0o7777, 0o750);
    assert!(sandbox.root().stat(&path("tool")).unwrap().executable);
}

#[test]
fn an_edit_never_shows_half_a_file() {
    let sandbox = Sandbox::new();
    sandbox.file("a", vec![b'0'; 100_000]);
    let root = sandbox.root();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..200_u8 {
                root.write(&path("a"), &vec![b'0' + round % 10; 100_000], BOTH)
                    .unwrap();
            }
        });
        while !writer.is_finished() {
            let content = fs::read(sandbox.host("a")).unwrap();
            assert_eq!(content.len(), 100_000);
            assert!(content.iter().all(|byte| *byte == content[0]));
        }
    });
    assert_eq!(
        fs::read_dir(sandbox.host("")).unwrap().count(),
        1,
        "no temporary file is left"
    );
}

#[test]
fn errors_hide_the_host() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    sandbox.file("f", "");
    sandbox.link("out", "../outside");
    for at in ["none", "f/x", "out/secret.txt", "out"] {
        sandbox.assert_hides_host(&root.read(&path(at)).unwrap_err());
    }
    let error = portolan_confine::Root::open(&sandbox.host("none")).unwrap_err();
    sandbox.assert_hides_host(&error);
}
