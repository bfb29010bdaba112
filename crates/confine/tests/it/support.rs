use portolan_confine::{DenyGlobs, RelPath, Root};
use std::path::PathBuf;
use tempfile::TempDir;

/// A root with a directory beside it that must stay as it is.
pub(crate) struct Sandbox {
    directory: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("root")).unwrap();
        std::fs::create_dir(directory.path().join("outside")).unwrap();
        std::fs::write(directory.path().join("outside/secret.txt"), "outside").unwrap();
        Self { directory }
    }

    /// The place of a path beneath the root on the host.
    pub(crate) fn host(&self, path: &str) -> PathBuf {
        self.directory.path().join("root").join(path)
    }

    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.directory.path().join("outside").join(path)
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let host = self.host(path);
        std::fs::create_dir_all(host.parent().unwrap()).unwrap();
        std::fs::write(&host, content).unwrap();
        host
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.host(path)).unwrap();
    }

    pub(crate) fn fifo(&self, path: &str) {
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, self.host(path), kind, mode, 0).unwrap();
    }

    pub(crate) fn root(&self) -> Root {
        Root::open(&self.host("")).unwrap()
    }

    pub(crate) fn denying(&self, globs: &[&str]) -> Root {
        self.root().denying(DenyGlobs::parse(globs).unwrap())
    }

    /// Nothing outside was read into, changed, added or removed.
    pub(crate) fn assert_outside_untouched(&self) {
        let names: Vec<_> = std::fs::read_dir(self.outside(""))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["secret.txt"]);
        assert_eq!(std::fs::read(self.outside("secret.txt")).unwrap(), b"outside");
    }

    /// An error text shows nothing of the host.
    pub(crate) fn assert_hides_host(&self, error: &dyn std::error::Error) {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text.push_str(&error.to_string());
            source = error.source();
        }
        assert!(!text.contains(self.directory.path().to_str().unwrap()), "{text}");
    }
}

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}
