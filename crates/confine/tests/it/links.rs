use crate::support::{Sandbox, path};
use portolan_confine::{
    AccessError, RelPath,
    root::{WriteMode, Written},
};
use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

const BOTH: WriteMode = WriteMode::CreateOrEdit;

#[test]
fn links_out_are_denied() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside("secret.txt");
    sandbox.link("relative", "../outside/secret.txt");
    sandbox.link("absolute", outside.to_str().unwrap());
    sandbox.link("one", "two");
    sandbox.link("two", "relative");
    sandbox.link("out", "../outside");
    sandbox.link("up", "..");
    sandbox.link("dangling", "../outside/new.txt");
    sandbox.link("loop", "loop");
    sandbox.link("magic", "/proc/self/root");
    sandbox.link("current", "/proc/self/cwd");
    let root = sandbox.root();
    for at in [
        "relative",
        "absolute",
        "one",
        "out/secret.txt",
        "out/new/file",
        "up/outside/secret.txt",
        "dangling",
        "loop",
        "magic/etc/hostname",
        "current",
    ] {
        let read = root.read(&path(at)).unwrap_err();
        assert!(
            matches!(read, AccessError::Escapes(_)) && read.is_denied(),
            "{at}: {read:?}"
        );
        for mode in [BOTH, WriteMode::Create, WriteMode::Edit] {
            let write = root.write(&path(at), b"pwned", mode).unwrap_err();
            assert!(write.is_denied(), "{at}: {write:?}");
        }
    }
    assert!(root.files(&path("out")).unwrap_err().is_denied());
    assert!(root.list(&path("up")).unwrap_err().is_denied());
    assert!(root.directory(&path("out")).unwrap_err().is_denied());
    assert!(root.remove(&path("out/secret.txt")).unwrap_err().is_denied());
    assert_eq!(root.files(&RelPath::root()).unwrap().entries, []);
    sandbox.assert_outside_untouched();
}

#[test]
fn a_long_chain_of_links_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.file("0", "");
    for number in 1..=41 {
        sandbox.link(&number.to_string(), &(number - 1).to_string());
    }
    assert!(sandbox.root().read(&path("40")).is_ok());
    assert!(sandbox.root().read(&path("41")).is_err());
}

#[test]
fn links_inside_are_followed() {
    let sandbox = Sandbox::new();
    sandbox.file("d/a.txt", "alpha");
    sandbox.link("file", "d/a.txt");
    sandbox.link("dir", "d");
    sandbox.link("d/self", "../d/a.txt");
    sandbox.link("nowhere", "d/none");
    let root = sandbox.root();
    assert_eq!(root.read_text(&path("file")).unwrap(), "alpha");
    assert_eq!(root.read_text(&path("dir/self")).unwrap(), "alpha");
    assert_eq!(root.directory(&path("dir")).unwrap().path().as_str(), "d");
    assert_eq!(
        root.write(&path("file"), b"beta", WriteMode::Edit).unwrap(),
        Written::Replaced
    );
    assert_eq!(
        root.write(&path("dir/new"), b"1", WriteMode::Create).unwrap(),
        Written::Created
    );
    assert_eq!(fs::read(sandbox.host("d/a.txt")).unwrap(), b"beta");
    assert_eq!(fs::read(sandbox.host("d/new")).unwrap(), b"1");
    assert!(fs::symlink_metadata(sandbox.host("file")).unwrap().is_symlink());
    assert!(matches!(
        root.write(&path("nowhere"), b"x", BOTH),
        Err(AccessError::NotAFile(_))
    ));
    assert!(matches!(
        root.write(&path("nowhere/x"), b"x", BOTH),
        Err(AccessError::NotAFile(_))
    ));
    assert!(!sandbox.host("d/none").exists());
    let listed = root.files(&RelPath::root()).unwrap().entries;
    assert_eq!(
        listed.iter().map(RelPath::as_str).collect::<Vec<_>>(),
        ["d/a.txt", "d/new", "d/self", "file"]
    );
    let below: Vec<_> = root.files(&path("dir")).unwrap().entries;
    assert_eq!(
        below.iter().map(RelPath::as_str).collect::<Vec<_>>(),
        ["dir/a.txt", "dir/new", "dir/self"]
    );
    root.remove(&path("file")).unwrap();
    assert!(sandbox.host("d/a.txt").exists());
}

#[test]
fn deny_globs_hold_where_a_link_leads() {
    let sandbox = Sandbox::new();
    sandbox.file("secret.txt", "s");
    sandbox.file("private/key", "k");
    sandbox.link("link.txt", "secret.txt");
    sandbox.link("dir", "private");
    sandbox.link("link-to-link", "link.txt");
    let root = sandbox.denying(&["secret.txt", "private"]);
    for at in ["link.txt", "link-to-link", "dir/key", "dir/new", "dir"] {
        assert!(
            matches!(root.read(&path(at)), Err(AccessError::Denied(_))),
            "{at}"
        );
        assert!(
            matches!(root.write(&path(at), b"x", BOTH), Err(AccessError::Denied(_))),
            "{at}"
        );
    }
    for at in ["dir/key", "dir/none"] {
        assert!(
            matches!(root.remove(&path(at)), Err(AccessError::Denied(_))),
            "{at}"
        );
    }
    assert!(matches!(root.list(&path("dir")), Err(AccessError::Denied(_))));
    assert!(matches!(
        root.directory(&path("dir")),
        Err(AccessError::Denied(_))
    ));
    assert_eq!(root.files(&RelPath::root()).unwrap().entries, []);
    assert_eq!(fs::read(sandbox.host("secret.txt")).unwrap(), b"s");
    assert_eq!(fs::read_dir(sandbox.host("private")).unwrap().count(), 1);
}

#[test]
fn a_hard_linked_file_is_not_written() {
    let sandbox = Sandbox::new();
    fs::hard_link(sandbox.outside("secret.txt"), sandbox.host("alias")).unwrap();
    let error = sandbox.root().write(&path("alias"), b"pwned", BOTH).unwrap_err();
    assert!(matches!(error, AccessError::HardLinked(_)) && error.is_denied());
    sandbox.assert_outside_untouched();
}

/// A directory is swapped with a link that leads out, as fast as another thread can. No read gets out, no write does.
#[test]
fn no_swap_leads_out() {
    let sandbox = Sandbox::new();
    sandbox.file("d/secret.txt", "inside");
    sandbox.link("l", "../outside");
    let root = sandbox.root();
    let over = AtomicBool::new(false);
    let (mut inside, mut refused) = (0_u32, 0_u32);
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swaps = 0_u32;
            while !over.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                let cwd = rustix::fs::CWD;
                rustix::fs::renameat_with(cwd, sandbox.host("d"), cwd, sandbox.host("l"), exchange).unwrap();
                swaps += 1;
            }
            swaps
        });
        // At least so often, and until both sides of the race have been seen.
        for round in 0..2_000_000_u32 {
            match root.read(&path("d/secret.txt")) {
                Ok(content) => {
                    assert_eq!(content, b"inside");
                    inside += 1;
                }
                Err(error) => {
                    assert!(
                        error.is_denied() || matches!(error, AccessError::NotFound(_)),
                        "{error:?}"
                    );
                    refused += 1;
                }
            }
            if round % 64 == 0 {
                let _ = root.write(&path("d/new.txt"), b"inside", BOTH);
                let _ = root.write(&path("d/deep/new.txt"), b"inside", BOTH);
                let _ = root.files(&path("d"));
                let _ = root.remove(&path("d/new.txt"));
            }
            if round > 20_000 && inside > 100 && refused > 100 {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(swapper.join().unwrap() > 0);
    });
    assert!(
        inside > 100 && refused > 100,
        "{inside} inside, {refused} refused"
    );
    sandbox.assert_outside_untouched();
}

/// A directory is renamed out of the root after it was opened. What is made through it never gets a path outside.
#[test]
fn a_directory_that_left_is_not_resolved() {
    let sandbox = Sandbox::new();
    sandbox.file("d/a", "1");
    sandbox.link("l", "d/a");
    let root = sandbox.root();
    fs::rename(sandbox.host("d"), sandbox.outside("d")).unwrap();
    assert!(matches!(root.read(&path("d/a")), Err(AccessError::NotFound(_))));
    assert!(matches!(root.read(&path("l")), Err(AccessError::NotFound(_))));
    fs::rename(sandbox.outside("d"), sandbox.host("d")).unwrap();
    sandbox.assert_outside_untouched();
}
