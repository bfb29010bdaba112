//! Deny globs: which paths beneath a root nobody may touch.
//!
//! A pattern is matched part by part. It is relative, so it may begin at any part of a path; `*`, `?` and sets stay
//! within one part, `**` as a whole part stands for any number of parts, none included. What a pattern matches is
//! denied together with everything below it. Letters are compared as they are written; a leading dot is nothing
//! special; there are no braces and no escapes. The root itself is never denied.

mod part;

use crate::path::RelPath;
use part::PartGlob;

/// The most patterns one set may hold.
pub const MAX_PATTERNS: usize = 1_024;
/// The most bytes one pattern may have.
pub const MAX_PATTERN_BYTES: usize = 4_096;

/// A parsed set of deny globs.
#[derive(Debug, Clone, Default)]
pub struct DenyGlobs {
    patterns: Vec<Pattern>,
}

/// Why a set of deny globs is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// A pattern has no part, so nobody can tell what it is to deny.
    #[error("deny glob {index} is empty")]
    Empty {
        /// Its place in the list, from 0.
        index: usize,
    },
    /// A pattern is longer than [`MAX_PATTERN_BYTES`].
    #[error("deny glob {index} is longer than {MAX_PATTERN_BYTES} bytes")]
    TooLong {
        /// Its place in the list, from 0.
        index: usize,
    },
    /// There are more than [`MAX_PATTERNS`].
    #[error("there are more than {MAX_PATTERNS} deny globs")]
    TooMany,
}

#[derive(Debug, Clone)]
enum Pattern {
    /// An absolute pattern matches no relative path.
    Never,
    Parts(Vec<Part>),
}

#[derive(Debug, Clone)]
enum Part {
    /// `**`: any number of parts.
    AnyParts,
    One(PartGlob),
}

impl DenyGlobs {
    /// A set that denies nothing.
    pub const fn none() -> Self {
        Self { patterns: Vec::new() }
    }

    /// Parses a list of patterns.
    pub fn parse<S: AsRef<str>>(patterns: &[S]) -> Result<Self, GlobError> {
        if patterns.len() > MAX_PATTERNS {
            return Err(GlobError::TooMany);
        }
        let parsed = patterns
            .iter()
            .enumerate()
            .map(|(index, text)| Pattern::parse(text.as_ref(), index));
        Ok(Self {
            patterns: parsed.collect::<Result<_, _>>()?,
        })
    }

    /// Whether it holds no pattern.
    pub const fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether the path, or a directory above it, is denied.
    pub fn denies(&self, path: &RelPath) -> bool {
        self.patterns.iter().any(|pattern| pattern.denies(path))
    }
}

impl Pattern {
    fn parse(text: &str, index: usize) -> Result<Self, GlobError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(GlobError::TooLong { index });
        }
        if text.starts_with('/') {
            return Ok(Self::Never);
        }
        let parts = text.split('/').filter(|part| !matches!(*part, "" | "."));
        let parts: Vec<Part> = parts
            .map(|part| {
                if part == "**" {
                    Part::AnyParts
                } else {
                    Part::One(PartGlob::parse(part))
                }
            })
            .collect();
        if parts.is_empty() {
            Err(GlobError::Empty { index })
        } else {
            Ok(Self::Parts(parts))
        }
    }

    /// Walks the path once with the set of all places in the pattern that may be reached. A pattern may start at every
    /// part, and once it is through, everything below is denied as well, so neither end is anchored.
    fn denies(&self, path: &RelPath) -> bool {
        let Self::Parts(parts) = self else { return false };
        let mut reached = vec![false; parts.len() + 1];
        open_start(parts, &mut reached);
        for name in path.parts() {
            // From the far end, so that a step taken for this name is not taken again for the same name.
            for place in (0..parts.len()).rev() {
                let stays = match &parts[place] {
                    Part::AnyParts => reached[place],
                    Part::One(glob) => {
                        if reached[place] && glob.matches(name) {
                            reached[place + 1] = true;
                        }
                        false
                    }
                };
                reached[place] = stays;
            }
            open_start(parts, &mut reached);
            if reached[parts.len()] {
                return true;
            }
        }
        false
    }
}

/// Opens the start for the next name, and steps over each `**` that is reached, as it may stand for no part at all.
fn open_start(parts: &[Part], reached: &mut [bool]) {
    reached[0] = true;
    for (place, part) in parts.iter().enumerate() {
        if matches!(part, Part::AnyParts) && reached[place] {
            reached[place + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DenyGlobs, GlobError};
    use crate::path::RelPath;

    const FILES: [&str; 19] = [
        "secret.txt",
        "a/secret.txt",
        "a/b/secret.txt",
        "secret/a.txt",
        "secret/sub/a.txt",
        "x/secret/a.txt",
        ".env",
        "a/.env",
        "a.txt",
        "b.txt",
        "c.txt",
        "a/b/c.txt",
        "a/c.txt",
        "a/b/d/c.txt",
        "Secret.txt",
        "star*.txt",
        "x[y].txt",
        "\u{e4}.txt",
        "y/secret",
    ];

    fn check(patterns: &[&str], denied: &[&str]) {
        let globs = DenyGlobs::parse(patterns).unwrap();
        let found: Vec<_> = FILES
            .into_iter()
            .filter(|file| globs.denies(&RelPath::parse(file).unwrap()))
            .collect();
        assert_eq!(found, denied, "{patterns:?}");
        assert!(!globs.denies(&RelPath::root()), "{patterns:?}");
    }

    #[test]
    fn names() {
        check(&["secret.txt"], &["secret.txt", "a/secret.txt", "a/b/secret.txt"]);
        check(&["SECRET.txt"], &[]);
        check(&[".*"], &[".env", "a/.env"]);
        check(&["*.env", "y"], &[".env", "a/.env", "y/secret"]);
        check(&["\u{e4}.txt"], &["\u{e4}.txt"]);
        check(&["\\*.txt"], &[]);
        check(&["sec**.txt"], &["secret.txt", "a/secret.txt", "a/b/secret.txt"]);
        check(&["*"], &FILES);
    }

    #[test]
    fn sets() {
        check(
            &["[ab].txt", ".env"],
            &[
                "secret/a.txt",
                "secret/sub/a.txt",
                "x/secret/a.txt",
                ".env",
                "a/.env",
                "a.txt",
                "b.txt",
            ],
        );
        check(&["x[y].txt"], &[]);
        check(&["x[*"], &["x[y].txt"]);
        check(
            &["[]a].txt"],
            &["secret/a.txt", "secret/sub/a.txt", "x/secret/a.txt", "a.txt"],
        );
    }

    #[test]
    fn several_parts() {
        check(&["a/secret.txt"], &["a/secret.txt"]);
        check(&["a//c.txt"], &["a/c.txt"]);
        check(&["./a/c.txt/"], &["a/c.txt"]);
        check(&["a/b/*"], &["a/b/secret.txt", "a/b/c.txt", "a/b/d/c.txt"]);
        check(&["a/b/d/c.txt"], &["a/b/d/c.txt"]);
        check(&["z/a/b/d/c.txt"], &[]);
        check(&["../secret.txt"], &[]);
        check(&["/secret.txt"], &[]);
    }

    #[test]
    fn a_denied_directory_denies_what_is_below() {
        check(
            &["secret/"],
            &["secret/a.txt", "secret/sub/a.txt", "x/secret/a.txt", "y/secret"],
        );
        check(&["x/secret"], &["x/secret/a.txt"]);
    }

    #[test]
    fn any_parts() {
        check(
            &["**/secret.txt"],
            &["secret.txt", "a/secret.txt", "a/b/secret.txt"],
        );
        check(
            &["secret/**"],
            &["secret/a.txt", "secret/sub/a.txt", "x/secret/a.txt", "y/secret"],
        );
        check(&["a/**/c.txt"], &["a/b/c.txt", "a/c.txt", "a/b/d/c.txt"]);
        check(&["a/**/**/d"], &["a/b/d/c.txt"]);
        check(&["a/**/b/**/c.txt"], &["a/b/c.txt", "a/b/d/c.txt"]);
        check(&["**"], &FILES);
    }

    #[test]
    fn a_pattern_without_a_part_is_refused() {
        for pattern in ["", ".", "./"] {
            assert_eq!(
                DenyGlobs::parse(&["x", pattern]).unwrap_err(),
                GlobError::Empty { index: 1 }
            );
        }
        assert_eq!(
            DenyGlobs::parse(&["x".repeat(5_000)]).unwrap_err(),
            GlobError::TooLong { index: 0 }
        );
        assert_eq!(
            DenyGlobs::parse(&vec!["x"; 2_000]).unwrap_err(),
            GlobError::TooMany
        );
    }
}
