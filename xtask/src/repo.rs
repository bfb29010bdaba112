//! The working copy: where it is, which files belong to it, and where its tools are kept.

use std::path::{Path, PathBuf};

use crate::{failure::Failure, program::Program};

/// A working copy of the project.
#[derive(Debug)]
pub(crate) struct Repo {
    root: PathBuf,
}

impl Repo {
    /// Finds the copy that this program was started from.
    pub(crate) fn find() -> Self {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .parent()
            .expect("xtask is a folder of the repository")
            .to_owned();
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Names the folder for tools that are installed for this copy alone.
    pub(crate) fn tools(&self) -> PathBuf {
        self.root.join("target/tools")
    }

    /// Lists the files of the copy by their path from the root: the committed ones and those that could be committed.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let listing = Program::new(self, "git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .capture()?;
        let mut files: Vec<PathBuf> = listing
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()))
            .filter(|path| self.root.join(path).is_file())
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Reads a text file by its path from the root.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<String, Failure> {
        let path = self.root.join(path);
        std::fs::read_to_string(&path).map_err(|source| Failure::File { path, source })
    }

    /// Reads a file as text, or nothing where it is not text.
    pub(crate) fn read_if_text(&self, path: &Path) -> Result<Option<String>, Failure> {
        let path = self.root.join(path);
        let bytes = std::fs::read(&path).map_err(|source| Failure::File { path, source })?;
        Ok(String::from_utf8(bytes).ok())
    }
}
