use crate::support::{ALL, Sandbox, policy};
use portolan_agent::{
    Resource,
    tools::{DirectoryResource, MemoryResource},
    workspace::{DirectoryWorkspace, MemoryWorkspace, Policy, WorkspaceConfigError},
};
use portolan_core::{
    digest::Digest,
    manifest::{Entry, Manifest},
    workspace::{Permission, Workspace, WorkspaceError},
};
use std::{collections::HashMap, fs, os::unix::fs::PermissionsExt};

const FILES: [(&str, &str); 6] = [
    ("a.txt", "alpha\r\n"),
    ("dir/b.txt", "beta"),
    ("dir/sub/c.txt", ""),
    ("keys/deep/id", "K"),
    ("secret.pem", "P"),
    ("\u{e9}.txt", "x"),
];

fn memory(files: &[(&str, &str)], policy: Policy) -> Result<MemoryWorkspace, WorkspaceConfigError> {
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    MemoryWorkspace::new(files, policy)
}

fn is_denied<T>(result: &Result<T, WorkspaceError>) -> bool {
    matches!(result, Err(WorkspaceError::Denied(_)))
}

/// Everything that the contents of a workspace are needed for.
fn contents(workspace: &dyn Workspace, manifest: &Manifest) -> HashMap<Digest, Vec<u8>> {
    let files = manifest.entries.iter().filter_map(|(path, entry)| match entry {
        Entry::File { digest, .. } => Some((*digest, workspace.content(path).unwrap())),
        Entry::Link { .. } | Entry::Directory | Entry::Unreadable { .. } => None,
    });
    files.collect()
}

fn restore(
    workspace: &dyn Workspace,
    manifest: &Manifest,
    contents: &HashMap<Digest, Vec<u8>>,
) -> Result<(), WorkspaceError> {
    workspace.restore(manifest, &mut |digest| {
        let content = contents.get(digest).cloned();
        content.ok_or_else(|| WorkspaceError::Failed("it is not at hand".to_owned()))
    })
}

/// An agent that was tried in memory meets the same answers in a directory, word for word.
#[test]
fn both_kinds_answer_alike() {
    let paths = [
        ".",
        "",
        "./",
        "a.txt",
        "./a.txt",
        "dir",
        "dir//b.txt",
        "dir/sub",
        "di",
        "a.txt/x",
        "no",
        "no/x",
        "keys",
        "keys/deep",
        "keys/deep/id",
        "keys/new",
        "secret.pem",
        "dir/new.pem",
        "..",
        "a/../a.txt",
        "/etc",
        "a\0b",
        "\u{e9}.txt",
        "e\u{301}.txt",
        "new/deep/file",
    ];
    let allowed: [&[Permission]; 5] = [
        &ALL,
        &Policy::EDITING,
        &[Permission::Create],
        &[Permission::Edit],
        &[Permission::Delete],
    ];
    for allow in allowed {
        let sandbox = Sandbox::new(&FILES);
        let policy = policy(allow, &["keys", "*.pem"]);
        let directory = sandbox.workspace(policy.clone());
        let memory = memory(&FILES, policy).unwrap();
        for path in paths {
            let case = format!("{path:?} with {allow:?}");
            assert_eq!(memory.list(path), directory.list(path), "list {case}");
            assert_eq!(memory.read(path), directory.read(path), "read {case}");
            assert_eq!(
                memory.write(path, "new"),
                directory.write(path, "new"),
                "write {case}"
            );
        }
        let mut scanned = directory.scan().unwrap();
        scanned.entries.retain(|_, entry| *entry != Entry::Directory);
        assert_eq!(memory.scan().unwrap(), scanned, "{allow:?}");
    }
}

#[test]
fn listings_leave_out_what_is_denied() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.link("link.txt", "secret.pem");
    sandbox.link("out.txt", "../outside/secret.txt");
    sandbox.link("fine.txt", "a.txt");
    let workspace = sandbox.workspace(policy(&ALL, &["keys", "*.pem"]));
    let listed = workspace.list(".").unwrap();
    assert_eq!(
        listed,
        ["a.txt", "dir/b.txt", "dir/sub/c.txt", "fine.txt", "\u{e9}.txt"]
    );
    // The evidence is not the model's: it holds everything.
    let scanned = workspace.scan().unwrap();
    for path in ["secret.pem", "keys/deep/id", "link.txt", "out.txt"] {
        assert!(scanned.entries.contains_key(path), "{path}");
    }
    assert_eq!(workspace.content("secret.pem").unwrap(), b"P");
}

#[test]
fn a_link_is_judged_by_where_it_leads() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.link("link.txt", "secret.pem");
    sandbox.link("door", "keys");
    sandbox.link("out", "../outside");
    let workspace = sandbox.workspace(policy(&ALL, &["keys", "*.pem"]));
    for path in ["link.txt", "door/deep/id", "out/secret.txt"] {
        let read = workspace.read(path);
        assert!(is_denied(&read), "{path}: {read:?}");
        sandbox.assert_hidden_in(&read.unwrap_err().to_string());
        assert!(is_denied(&workspace.write(path, "x")), "{path}");
    }
    assert!(is_denied(&workspace.write("door/new", "x")));
    assert!(is_denied(&workspace.write("out/new", "x")));
    assert!(is_denied(&workspace.list("out")));
    assert!(is_denied(&workspace.list("door")));
    assert!(is_denied(&workspace.working_directory("door").map(|_| ())));
    assert!(is_denied(&workspace.working_directory("out").map(|_| ())));
    assert_eq!(sandbox.read("secret.pem"), "P");
    assert_eq!(
        fs::read(sandbox.outside().join("secret.txt")).unwrap(),
        b"outside"
    );
    assert_eq!(fs::read_dir(sandbox.outside()).unwrap().count(), 1);
}

#[test]
fn a_refused_write_does_not_tell_what_is_there() {
    let sandbox = Sandbox::new(&FILES);
    let refused = |allow: Permission, path: &str| {
        let workspace = sandbox.workspace(policy(&[allow], &["*.pem"]));
        let error = workspace.write(path, "x").unwrap_err();
        assert!(matches!(error, WorkspaceError::Denied(_)), "{path}: {error:?}");
        error.to_string().replace(path, "PATH")
    };
    let mut texts: Vec<String> = ["a.txt", "dir", "a.txt/x", "secret.pem", "new.pem"]
        .map(|path| refused(Permission::Create, path))
        .into();
    texts.extend(
        ["new.txt", "dir", "new/x", "secret.pem", "new.pem"].map(|path| refused(Permission::Edit, path)),
    );
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
}

#[test]
fn texts_are_exact() {
    let sandbox = Sandbox::new(&[]);
    let workspace = sandbox.workspace(Policy::editing());
    for text in ["a\r\nb\rc\n", "\u{feff}x", "", "\u{1f4a5}e\u{301}"] {
        workspace.write("t.txt", text).unwrap();
        assert_eq!(sandbox.read("t.txt"), text);
        assert_eq!(workspace.read("t.txt").unwrap(), text);
    }
    fs::write(sandbox.host("bin"), b"\xff\xfe").unwrap();
    assert!(matches!(workspace.read("bin"), Err(WorkspaceError::Failed(_))));
}

#[test]
fn another_directory_under_the_same_path_is_not_reached() {
    let sandbox = Sandbox::new(&FILES);
    let workspace = sandbox.workspace(Policy::editing());
    fs::rename(sandbox.host(""), sandbox.outside().join("moved")).unwrap();
    fs::create_dir(sandbox.host("")).unwrap();
    fs::write(sandbox.host("a.txt"), "of another").unwrap();
    assert_eq!(workspace.read("a.txt").unwrap(), "alpha\r\n");
    workspace.write("a.txt", "mine").unwrap();
    assert_eq!(sandbox.read("a.txt"), "of another");
}

#[test]
fn commands_start_in_directories_that_may_execute() {
    let sandbox = Sandbox::new(&FILES);
    let without = sandbox.workspace(policy(&Policy::EDITING, &[]));
    assert!(is_denied(&without.working_directory(".").map(|_| ())));
    let workspace = sandbox.workspace(policy(&[Permission::Execute], &[]));
    assert!(workspace.working_directory("dir/sub").is_ok());
    assert!(is_denied(&workspace.working_directory("..").map(|_| ())));
    for path in ["a.txt", "no"] {
        let error = workspace.working_directory(path).unwrap_err();
        assert!(matches!(error, WorkspaceError::Failed(_)), "{path}: {error:?}");
    }
}

#[test]
fn a_directory_is_restored_exactly() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.link("link.txt", "../outside/secret.txt");
    fs::create_dir(sandbox.host("empty")).unwrap();
    fs::set_permissions(sandbox.host("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    // What the policy hides is restored like the rest.
    let workspace = sandbox.workspace(policy(&[], &["*"]));
    let wanted = workspace.scan().unwrap();
    let contents = contents(&workspace, &wanted);

    fs::set_permissions(sandbox.host("a.txt"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(sandbox.host("dir/b.txt"), "other").unwrap();
    fs::remove_dir_all(sandbox.host("keys")).unwrap();
    fs::write(sandbox.host("keys"), "a file now").unwrap();
    fs::remove_dir(sandbox.host("empty")).unwrap();
    fs::remove_file(sandbox.host("link.txt")).unwrap();
    fs::create_dir_all(sandbox.host("link.txt/below")).unwrap();
    fs::write(sandbox.host("excess.txt"), "x").unwrap();
    assert_ne!(workspace.scan().unwrap(), wanted);

    restore(&workspace, &wanted, &contents).unwrap();
    assert_eq!(workspace.scan().unwrap(), wanted);
    assert_eq!(sandbox.workspace(Policy::editing()).scan().unwrap(), wanted);
    assert_eq!(sandbox.read("keys/deep/id"), "K");
    assert_eq!(
        fs::read(sandbox.outside().join("secret.txt")).unwrap(),
        b"outside"
    );
}

#[test]
fn memory_is_restored_exactly_or_not_at_all() {
    let workspace = memory(&FILES, Policy::editing()).unwrap();
    let wanted = workspace.scan().unwrap();
    let contents = contents(&workspace, &wanted);
    workspace.write("a.txt", "other").unwrap();
    workspace.write("excess.txt", "x").unwrap();
    let changed = workspace.scan().unwrap();

    let nothing = HashMap::new();
    assert!(restore(&workspace, &wanted, &nothing).is_err());
    let mut wrong = contents.clone();
    wrong.insert(Digest::of(b"alpha\r\n"), b"tampered".to_vec());
    assert!(restore(&workspace, &wanted, &wrong).is_err());
    for (path, entry) in [
        ("a.txt/below", wanted.entries["a.txt"].clone()),
        ("empty", Entry::Directory),
        ("../x", wanted.entries["a.txt"].clone()),
        (
            "link",
            Entry::Link {
                target: "a.txt".to_owned(),
            },
        ),
    ] {
        let mut other = wanted.clone();
        other.entries.insert(path.to_owned(), entry);
        assert!(restore(&workspace, &other, &contents).is_err(), "{path}");
    }
    assert_eq!(workspace.scan().unwrap(), changed);

    restore(&workspace, &wanted, &contents).unwrap();
    assert_eq!(workspace.scan().unwrap(), wanted);
    assert_eq!(workspace.read("a.txt").unwrap(), "alpha\r\n");
}

/// What a directory held can go on in memory, as far as memory can hold it.
#[test]
fn the_files_of_a_directory_fit_into_memory() {
    let sandbox = Sandbox::new(&FILES);
    let directory = sandbox.workspace(Policy::editing());
    let manifest = directory.scan().unwrap();
    let fresh = memory(&[], Policy::editing()).unwrap();
    restore(&fresh, &manifest, &contents(&directory, &manifest)).unwrap();
    assert_eq!(fresh.list(".").unwrap(), directory.list(".").unwrap());
    assert_eq!(fresh.read("dir/b.txt").unwrap(), "beta");
}

#[test]
fn first_files_that_cannot_be_are_a_configuration_error() {
    for files in [
        &[("../x", "")][..],
        &[("/x", "")],
        &[(".", "")],
        &[("", "")],
        &[("a", ""), ("./a", "")],
        &[("a", ""), ("a/b", "")],
        &[("a/b/c", ""), ("a", "")],
        &[("a/b", ""), ("a/b/c/d", "")],
    ] {
        assert!(memory(files, Policy::editing()).is_err(), "{files:?}");
    }
    let error = memory(&[("a", ""), ("x/..", "")], Policy::editing()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the file path \"x/..\" is not valid: the path has a `..` part"
    );
    assert!(memory(&[("a", ""), ("ab", ""), ("a.b", "")], Policy::editing()).is_ok());
    let sandbox = Sandbox::new(&[]);
    assert!(DirectoryWorkspace::open(sandbox.host("no"), Policy::editing()).is_err());
}

#[test]
fn resources_only_read() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.link("out.txt", "../outside/secret.txt");
    let hiding = policy(&Policy::READING, &["keys", "*.pem"]);
    let directory = DirectoryResource::open(sandbox.host(""), hiding.clone()).unwrap();
    let files = FILES.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let memory = MemoryResource::new(files, hiding).unwrap().described("Notes.");
    let both: [&dyn Resource; 2] = [&directory, &memory];
    for resource in both {
        assert_eq!(resource.list("dir").unwrap(), ["dir/b.txt", "dir/sub/c.txt"]);
        assert_eq!(resource.list(".").unwrap().len(), 4);
        assert_eq!(resource.read("a.txt").unwrap(), "alpha\r\n");
        assert!(is_denied(&resource.read("secret.pem")));
        assert!(is_denied(&resource.list("keys")));
    }
    assert!(is_denied(&directory.read("out.txt")));
    assert_eq!(memory.description(), "Notes.");
    let unreadable = DirectoryResource::open(sandbox.host(""), policy(&[Permission::List], &[])).unwrap();
    assert!(is_denied(&unreadable.read("a.txt")));
}
