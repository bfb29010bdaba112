//! Directories to work in.

use portolan_agent::workspace::{DirectoryWorkspace, Policy};
use portolan_core::workspace::Permission;
use std::path::PathBuf;
use tempfile::TempDir;

/// A root with a directory beside it that nothing may reach.
pub(crate) struct Sandbox {
    directory: TempDir,
}

impl Sandbox {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sandbox = Self { directory };
        std::fs::create_dir(sandbox.host("")).unwrap();
        std::fs::create_dir(sandbox.outside()).unwrap();
        std::fs::write(sandbox.outside().join("secret.txt"), "outside").unwrap();
        for (path, content) in files {
            std::fs::create_dir_all(sandbox.host(path).parent().unwrap()).unwrap();
            std::fs::write(sandbox.host(path), content).unwrap();
        }
        sandbox
    }

    pub(crate) fn host(&self, path: &str) -> PathBuf {
        self.directory.path().join("root").join(path)
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.host(path)).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        String::from_utf8(std::fs::read(self.host(path)).unwrap()).unwrap()
    }

    pub(crate) fn workspace(&self, policy: Policy) -> DirectoryWorkspace {
        DirectoryWorkspace::open(self.host(""), policy).unwrap()
    }

    /// A text for a model shows nothing of the host.
    pub(crate) fn assert_hidden_in(&self, text: &str) {
        assert!(!text.contains(self.directory.path().to_str().unwrap()), "{text}");
    }
}

pub(crate) fn policy(allow: &[Permission], deny: &[&str]) -> Policy {
    let deny: Vec<String> = deny.iter().map(|glob| (*glob).to_owned()).collect();
    Policy::new(allow.iter().copied(), &deny).unwrap()
}

pub(crate) const ALL: [Permission; 6] = [
    Permission::List,
    Permission::Read,
    Permission::Create,
    Permission::Edit,
    Permission::Delete,
    Permission::Execute,
];
