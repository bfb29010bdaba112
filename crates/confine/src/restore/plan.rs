//! What a restore has to do, worked out on manifests alone.

use super::{RestoreError, relative};
use portolan_core::manifest::{Entry, Manifest};
use std::collections::BTreeMap;

/// A manifest that can be restored: all paths are valid, and every parent is a directory and is listed.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    target: BTreeMap<&'a str, &'a Entry>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(manifest: &'a Manifest) -> Result<Self, RestoreError> {
        let mut target = BTreeMap::new();
        for (path, entry) in &manifest.entries {
            let parsed = relative(path)?;
            if parsed.is_root() || parsed.as_str() != path {
                // Two spellings of one path could disagree about it.
                return Err(RestoreError::Inconsistent { path: parsed });
            }
            for (at, _) in path.match_indices('/') {
                let parent = path.get(..at).unwrap_or_default();
                match manifest.entries.get(parent) {
                    None | Some(Entry::Directory) => {
                        target.insert(parent, &Entry::Directory);
                    }
                    Some(Entry::File { .. } | Entry::Link { .. } | Entry::Unreadable { .. }) => {
                        return Err(RestoreError::Inconsistent {
                            path: relative(parent)?,
                        });
                    }
                }
            }
            target.insert(path, entry);
        }
        Ok(Self { target })
    }

    /// What is unknown in the manifest.
    pub(super) fn skipped(&self) -> Vec<String> {
        let unknown = self
            .target
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::Unreadable { .. }));
        unknown.map(|(path, _)| (*path).to_owned()).collect()
    }

    /// What has to go, children before their directories: what is not in the manifest, and what is another kind there.
    pub(super) fn to_remove(&self, current: &Manifest) -> Vec<String> {
        let excess =
            current
                .entries
                .iter()
                .rev()
                .filter(|(path, entry)| match self.target.get(path.as_str()) {
                    None => !self.is_unknown(path),
                    Some(Entry::Unreadable { .. }) => false,
                    Some(wanted) => !can_become(entry, wanted),
                });
        excess.map(|(path, _)| path.clone()).collect()
    }

    /// What has to be written, directories before their children.
    pub(super) fn to_put<'b>(
        &'b self,
        current: &'b Manifest,
    ) -> impl Iterator<Item = (&'a str, &'a Entry)> + 'b {
        self.target
            .iter()
            .filter(|(path, entry)| {
                !matches!(entry, Entry::Unreadable { .. }) && current.entries.get(**path) != Some(**entry)
            })
            .map(|(path, entry)| (*path, *entry))
    }

    /// The first path at which a manifest is not what was to be restored.
    pub(super) fn difference(&self, now: &Manifest) -> Option<String> {
        let wanted = self
            .target
            .iter()
            .filter(|(_, entry)| !matches!(entry, Entry::Unreadable { .. }));
        let missing = wanted
            .into_iter()
            .find(|(path, entry)| now.entries.get(**path) != Some(**entry));
        missing.map(|(path, _)| (*path).to_owned()).or_else(|| {
            let excess = now
                .entries
                .keys()
                .find(|path| !self.target.contains_key(path.as_str()) && !self.is_unknown(path));
            excess.cloned()
        })
    }

    /// Whether a path is below something of which the manifest does not know the content.
    fn is_unknown(&self, path: &str) -> bool {
        path.match_indices('/').any(|(at, _)| {
            matches!(
                path.get(..at).and_then(|above| self.target.get(above)),
                Some(Entry::Unreadable { .. })
            )
        })
    }
}

/// Whether an entry can be turned into the wanted one without removing it first.
fn can_become(entry: &Entry, wanted: &Entry) -> bool {
    match (entry, wanted) {
        (Entry::Directory, Entry::Directory)
        | (Entry::File { .. } | Entry::Link { .. }, Entry::File { .. } | Entry::Link { .. }) => true,
        (
            Entry::Directory | Entry::File { .. } | Entry::Link { .. } | Entry::Unreadable { .. },
            Entry::Directory | Entry::File { .. } | Entry::Link { .. } | Entry::Unreadable { .. },
        ) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;
    use crate::restore::RestoreError;
    use portolan_core::{
        digest::Digest,
        manifest::{Entry, Manifest},
    };

    fn file(content: &str) -> Entry {
        Entry::File {
            digest: Digest::of(content.as_bytes()),
            size: content.len() as u64,
            executable: false,
        }
    }

    fn manifest(entries: &[(&str, Entry)]) -> Manifest {
        Manifest {
            entries: entries
                .iter()
                .map(|(path, entry)| ((*path).to_owned(), entry.clone()))
                .collect(),
        }
    }

    fn unknown() -> Entry {
        Entry::Unreadable {
            reason: "permission denied".to_owned(),
        }
    }

    #[test]
    fn only_what_differs_is_planned() {
        let wanted = manifest(&[
            ("a/b", file("1")),
            ("c", file("2")),
            ("d", Entry::Directory),
            ("u", unknown()),
        ]);
        let current = manifest(&[
            ("a", file("x")),
            ("c", file("2")),
            ("d", Entry::Directory),
            ("d/e", Entry::Directory),
            ("d/e/f", file("3")),
            ("u", Entry::Directory),
            ("u/v", file("4")),
        ]);
        let plan = Plan::new(&wanted).unwrap();
        assert_eq!(plan.to_remove(&current), ["d/e/f", "d/e", "a"]);
        let put: Vec<_> = plan.to_put(&current).map(|(path, _)| path).collect();
        assert_eq!(put, ["a", "a/b"]);
        assert_eq!(plan.skipped(), ["u"]);
    }

    #[test]
    fn a_difference_is_found() {
        let wanted = manifest(&[("a/b", file("1")), ("u", unknown())]);
        let plan = Plan::new(&wanted).unwrap();
        let mut now = manifest(&[("a", Entry::Directory), ("a/b", file("1")), ("u", file("any"))]);
        assert_eq!(plan.difference(&now), None);
        now.entries.insert("z".to_owned(), Entry::Directory);
        assert_eq!(plan.difference(&now).as_deref(), Some("z"));
        now.entries.insert("a/b".to_owned(), file("2"));
        assert_eq!(plan.difference(&now).as_deref(), Some("a/b"));
    }

    #[test]
    fn a_manifest_that_cannot_be_is_refused() {
        for path in ["../x", "/x", "a/../b", "a\0b"] {
            let error = Plan::new(&manifest(&[(path, file("1"))])).unwrap_err();
            assert!(matches!(error, RestoreError::Path(_)), "{path:?}: {error:?}");
        }
        for entries in [
            vec![("a", file("1")), ("a/b", file("2"))],
            vec![
                (
                    "a",
                    Entry::Link {
                        target: "/".to_owned(),
                    },
                ),
                ("a/b", file("2")),
            ],
            vec![("a/./b", file("1"))],
            vec![(".", Entry::Directory)],
        ] {
            let error = Plan::new(&manifest(&entries)).unwrap_err();
            assert!(
                matches!(error, RestoreError::Inconsistent { .. }),
                "{entries:?}: {error:?}"
            );
        }
    }
}
