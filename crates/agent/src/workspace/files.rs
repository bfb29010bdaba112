//! Files in memory, with the rules of a directory: a file has nothing below it, and a directory is no file.

use super::WorkspaceConfigError;
use portolan_confine::{
    DenyGlobs, RelPath,
    root::{AccessError, MAX_WRITE_BYTES, WriteMode},
};
use portolan_core::{
    digest::Digest,
    manifest::{Entry, Manifest},
};
use std::{collections::BTreeMap, sync::Arc};

/// The most bytes that one workspace in memory holds.
pub const MAX_MEMORY_BYTES: u64 = 256 * 1024 * 1024;
/// The most files that one workspace in memory holds.
pub const MAX_MEMORY_FILES: usize = 100_000;

/// Files by their normalised path.
#[derive(Debug, Clone, Default)]
pub(super) struct Files {
    files: BTreeMap<String, File>,
    bytes: u64,
}

/// A file. Its digest is made when it is written, so that a scan costs no hashing.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) content: Arc<[u8]>,
    digest: Digest,
    executable: bool,
}

/// What a write would exceed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("the workspace holds at most {MAX_MEMORY_FILES} files and {MAX_MEMORY_BYTES} bytes")]
    Full,
}

impl File {
    pub(super) fn new(content: &[u8], executable: bool) -> Self {
        Self {
            content: content.into(),
            digest: Digest::of(content),
            executable,
        }
    }

    pub(super) const fn digest(&self) -> &Digest {
        &self.digest
    }

    fn size(&self) -> u64 {
        self.content.len() as u64
    }

    fn entry(&self) -> Entry {
        Entry::File {
            digest: self.digest,
            size: self.size(),
            executable: self.executable,
        }
    }
}

impl Files {
    /// Takes the first files of a workspace or resource.
    pub(super) fn new(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Result<Self, WorkspaceConfigError> {
        let mut taken = Self::default();
        for (path, content) in files {
            let parsed = match RelPath::parse(&path) {
                Ok(parsed) if parsed.is_root() => return Err(WorkspaceConfigError::RootIsNoFile { path }),
                Ok(parsed) => parsed,
                Err(reason) => return Err(WorkspaceConfigError::InvalidPath { path, reason }),
            };
            let path = parsed.as_str().to_owned();
            if taken.files.contains_key(&path) {
                return Err(WorkspaceConfigError::Duplicate { path });
            }
            if taken.has_below(&path) {
                return Err(WorkspaceConfigError::FileAndDirectory { path });
            }
            if let Some(above) = taken.file_above(&parsed) {
                return Err(WorkspaceConfigError::FileAndDirectory { path: above });
            }
            if !taken.put(path, File::new(&content, false)) {
                return Err(WorkspaceConfigError::TooLarge);
            }
        }
        Ok(taken)
    }

    /// The paths of all files at or below a path that are not denied.
    pub(super) fn list(&self, path: &RelPath, deny: &DenyGlobs) -> Result<Vec<String>, AccessError> {
        check(path, deny)?;
        let shown = |name: &str| RelPath::parse(name).is_ok_and(|path| !deny.denies(&path));
        let itself = self.files.get_key_value(path.as_str()).into_iter();
        let found = itself.chain(self.below(path.as_str())).map(|(name, _)| name);
        Ok(found.filter(|name| shown(name)).cloned().collect())
    }

    /// The file at a path.
    pub(super) fn get(&self, path: &RelPath) -> Result<&File, AccessError> {
        match self.files.get(path.as_str()) {
            Some(file) => Ok(file),
            None if self.is_directory(path) => Err(AccessError::IsADirectory(path.clone())),
            None if self.file_above(path).is_some() => Err(AccessError::NotADirectory(path.clone())),
            None => Err(AccessError::NotFound(path.clone())),
        }
    }

    /// Writes a whole file. With only half of the rights, what is there is not told.
    pub(super) fn write(
        &mut self,
        path: &RelPath,
        content: &[u8],
        mode: WriteMode,
    ) -> Result<(), WriteError> {
        if content.len() as u64 > MAX_WRITE_BYTES {
            return Err(WriteError::Access(AccessError::TooLarge {
                path: path.clone(),
                limit: MAX_WRITE_BYTES,
            }));
        }
        let executable = match (self.get(path), mode) {
            (Ok(file), WriteMode::Edit | WriteMode::CreateOrEdit) => file.executable,
            (Err(AccessError::NotFound(_)), WriteMode::Create | WriteMode::CreateOrEdit) => false,
            (Err(error), WriteMode::CreateOrEdit) => return Err(error.into()),
            (Ok(_), WriteMode::Create) | (Err(_), WriteMode::Create | WriteMode::Edit) => {
                return Err(AccessError::Denied(path.clone()).into());
            }
        };
        if self.put(path.as_str().to_owned(), File::new(content, executable)) {
            Ok(())
        } else {
            Err(WriteError::Full)
        }
    }

    /// What is there.
    pub(super) fn manifest(&self) -> Manifest {
        let entries = self.files.iter().map(|(path, file)| (path.clone(), file.entry()));
        Manifest {
            entries: entries.collect(),
        }
    }

    /// The content of a digest, if a file has it.
    pub(super) fn content_of(&self, path: &str, digest: &Digest) -> Option<Arc<[u8]>> {
        let file = self.files.get(path).filter(|file| file.digest == *digest);
        file.map(|file| Arc::clone(&file.content))
    }

    /// Puts a file in its place unless there is no room. Whoever calls knows that the place is right.
    pub(super) fn put(&mut self, path: String, file: File) -> bool {
        let old = self.files.get(&path);
        let bytes = self.bytes - old.map_or(0, File::size) + file.size();
        if bytes > MAX_MEMORY_BYTES || (old.is_none() && self.files.len() >= MAX_MEMORY_FILES) {
            return false;
        }
        self.bytes = bytes;
        self.files.insert(path, file);
        true
    }

    pub(super) fn is_directory(&self, path: &RelPath) -> bool {
        path.is_root() || self.has_below(path.as_str())
    }

    fn has_below(&self, path: &str) -> bool {
        self.below(path).next().is_some()
    }

    fn below(&self, path: &str) -> impl Iterator<Item = (&String, &File)> {
        let prefix = if path == "." {
            String::new()
        } else {
            format!("{path}/")
        };
        let from = self.files.range(prefix.clone()..);
        from.take_while(move |(name, _)| name.starts_with(&prefix))
    }

    /// The file in whose place a directory would have to be.
    pub(super) fn file_above(&self, path: &RelPath) -> Option<String> {
        let mut above = path.parent();
        while let Some(directory) = above {
            if self.files.contains_key(directory.as_str()) {
                return Some(directory.as_str().to_owned());
            }
            above = directory.parent();
        }
        None
    }
}

/// Refuses a path that the deny globs match.
pub(super) fn check(path: &RelPath, deny: &DenyGlobs) -> Result<(), AccessError> {
    if deny.denies(path) {
        Err(AccessError::Denied(path.clone()))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }

    #[test]
    fn the_bytes_are_bounded_and_an_overwrite_gives_them_back() {
        let mut files = Files::default();
        let large = File::new(&vec![0; 1 << 24], false);
        let most = MAX_MEMORY_BYTES >> 24;
        for number in 0..most {
            assert!(files.put(number.to_string(), large.clone()));
        }
        assert!(!files.put("one too many".to_owned(), File::new(b"x", false)));
        let mode = WriteMode::CreateOrEdit;
        assert!(matches!(
            files.write(&path("new"), b"x", mode),
            Err(WriteError::Full)
        ));
        files.write(&path("0"), b"x", mode).unwrap();
        files.write(&path("new"), &vec![0; (1 << 24) - 1], mode).unwrap();
        assert!(matches!(
            files.write(&path("0"), b"xy", mode),
            Err(WriteError::Full)
        ));
    }

    #[test]
    fn the_files_are_bounded() {
        let mut files = Files::default();
        let empty = File::new(b"", false);
        for number in 0..MAX_MEMORY_FILES {
            assert!(files.put(number.to_string(), empty.clone()));
        }
        assert!(!files.put("one too many".to_owned(), empty.clone()));
        assert!(files.put("0".to_owned(), empty));
    }

    #[test]
    fn one_write_is_bounded() {
        let too_large = vec![0; usize::try_from(MAX_WRITE_BYTES).unwrap() + 1];
        let written = Files::default().write(&path("a"), &too_large, WriteMode::Create);
        assert!(matches!(
            written,
            Err(WriteError::Access(AccessError::TooLarge { .. }))
        ));
    }

    #[test]
    fn an_overwrite_keeps_the_execute_bit() {
        let mut files = Files::default();
        files.put("a".to_owned(), File::new(b"1", true));
        files.write(&path("a"), b"2", WriteMode::Edit).unwrap();
        assert_eq!(
            files.manifest().entries["a"],
            Entry::File {
                digest: Digest::of(b"2"),
                size: 1,
                executable: true,
            }
        );
    }

    #[test]
    fn a_name_is_no_prefix() {
        let list = |deny: &[&str]| {
            let names = ["a.b", "a/b", "a/c/d", "ab"].map(|name| (name.to_owned(), Vec::new()));
            let deny = DenyGlobs::parse(deny).unwrap();
            Files::new(names).unwrap().list(&path("a"), &deny)
        };
        assert_eq!(list(&[]).unwrap(), ["a/b", "a/c/d"]);
        assert_eq!(list(&["c"]).unwrap(), ["a/b"]);
        assert!(matches!(list(&["a"]), Err(AccessError::Denied(_))));
    }
}
