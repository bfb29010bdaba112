//! The content of a workspace as a value: what a snapshot, a restore and an artifact list are made of.

use crate::{
    artifact::{Artifact, Operation},
    digest::Digest,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One entry of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Entry {
    /// A regular file.
    File {
        /// BLAKE3 of its content.
        digest: Digest,
        /// Size in bytes.
        size: u64,
        /// Whether its owner may execute it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        executable: bool,
    },
    /// A symbolic link; never followed.
    Link {
        /// Where it points, as it is written.
        target: String,
    },
    /// A directory. It is restored, and it is never an artifact.
    Directory,
    /// Something that is there but could not be read, or is no file (a pipe, a socket, a device).
    Unreadable {
        /// Why.
        reason: String,
    },
}

/// All entries below a root by their path with `/`, ordered by code point.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest {
    /// The entries.
    pub entries: BTreeMap<String, Entry>,
}

/// What turns one manifest into another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestChange {
    /// Entries that are new or different.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub put: BTreeMap<String, Entry>,
    /// Paths that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

impl ManifestChange {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.removed.is_empty()
    }
}

impl Manifest {
    /// What has to change in this manifest to get the other.
    pub fn change_to(&self, later: &Self) -> ManifestChange {
        let put = later
            .entries
            .iter()
            .filter(|(path, entry)| self.entries.get(*path) != Some(entry));
        let removed = self
            .entries
            .keys()
            .filter(|path| !later.entries.contains_key(*path));
        ManifestChange {
            put: put.map(|(p, e)| (p.clone(), e.clone())).collect(),
            removed: removed.cloned().collect(),
        }
    }

    /// Applies a change.
    pub fn apply(&mut self, change: &ManifestChange) {
        for path in &change.removed {
            self.entries.remove(path);
        }
        for (path, entry) in &change.put {
            self.entries.insert(path.clone(), entry.clone());
        }
    }

    /// The changed files since an earlier manifest, ordered by path. Directories and the execute bit are no artifacts.
    pub fn artifacts_since(&self, earlier: &Self) -> Vec<Artifact> {
        let mut artifacts = Vec::new();
        for (path, entry) in &self.entries {
            let before = earlier.entries.get(path).filter(|e| is_file(e));
            let operation = match (before, is_file(entry)) {
                (_, false) => continue,
                (None, true) => Operation::Created,
                (Some(old), true) if same_content(old, entry) => continue,
                (Some(_), true) => Operation::Modified,
            };
            artifacts.push(artifact(path, operation, entry));
        }
        for (path, entry) in &earlier.entries {
            if is_file(entry) && !self.entries.get(path).is_some_and(is_file) {
                artifacts.push(Artifact {
                    path: path.clone(),
                    operation: Operation::Deleted,
                    size: None,
                    digest: None,
                });
            }
        }
        artifacts.sort_by(|a, b| a.path.cmp(&b.path));
        artifacts
    }
}

const fn is_file(entry: &Entry) -> bool {
    !matches!(entry, Entry::Directory)
}

fn same_content(a: &Entry, b: &Entry) -> bool {
    match (a, b) {
        (Entry::File { digest: x, .. }, Entry::File { digest: y, .. }) => x == y,
        (a, b) => a == b,
    }
}

fn artifact(path: &str, operation: Operation, entry: &Entry) -> Artifact {
    let (size, digest) = match entry {
        Entry::File { digest, size, .. } => (Some(*size), Some(*digest)),
        Entry::Link { .. } | Entry::Directory | Entry::Unreadable { .. } => (None, None),
    };
    Artifact {
        path: path.to_owned(),
        operation,
        size,
        digest,
    }
}
