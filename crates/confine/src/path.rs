//! Paths beneath a root, checked when they are parsed.

use crate::name;
use std::{borrow::Cow, fmt};

/// The most bytes a path may have.
pub const MAX_PATH_BYTES: usize = 4_095;
/// The most bytes one part of a path may have.
pub const MAX_PART_BYTES: usize = 255;
/// The most parts a path may have.
pub const MAX_PARTS: usize = 256;

/// A relative, normalised path that names something beneath a root, or the root itself as `.`.
///
/// It has no `..`, no empty part, no `.` part and no NUL, and it is within bounds. Two paths are equal exactly if they
/// are the same bytes; nothing is expanded and no Unicode form is changed. Bytes that are no UTF-8 appear as `\xHH`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelPath {
    /// Parts joined by `/`; empty for the root.
    text: String,
}

/// Why a text is no path beneath a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It starts at the file system's root.
    #[error("the path is absolute")]
    Absolute,
    /// A part is `..`, even if the whole would stay inside: what it means depends on links.
    #[error("the path has a `..` part")]
    Parent,
    /// It holds a NUL, which would end the name for the kernel.
    #[error("the path has a NUL")]
    Nul,
    /// The path or one of its parts is too long, or it has too many parts.
    #[error("the path is too long")]
    TooLong,
}

impl PathError {
    /// Whether the path tries to leave the root, as opposed to being malformed.
    pub const fn is_escape(self) -> bool {
        matches!(self, Self::Absolute | Self::Parent)
    }
}

impl RelPath {
    /// The root itself.
    pub const fn root() -> Self {
        Self { text: String::new() }
    }

    /// Parses and normalises a path as a caller wrote it.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.starts_with('/') {
            return Err(PathError::Absolute);
        }
        if text.contains('\0') {
            return Err(PathError::Nul);
        }
        let mut path = Self::root();
        for (count, part) in text
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .enumerate()
        {
            if part == ".." {
                return Err(PathError::Parent);
            }
            if count >= MAX_PARTS {
                return Err(PathError::TooLong);
            }
            path.push(&name::decode(part))?;
        }
        Ok(path)
    }

    /// Whether it is the root.
    pub const fn is_root(&self) -> bool {
        self.text.is_empty()
    }

    /// The path as text: `.` for the root, else parts joined by `/`.
    pub const fn as_str(&self) -> &str {
        if self.text.is_empty() {
            "."
        } else {
            self.text.as_str()
        }
    }

    /// Its parts from the root down; none for the root.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.text.split('/').filter(|part| !part.is_empty())
    }

    /// The directory it is in; none for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let text = self.text.rsplit_once('/').map_or("", |(parent, _)| parent);
        Some(Self {
            text: text.to_owned(),
        })
    }

    /// Its last part; none for the root.
    pub fn file_name(&self) -> Option<&str> {
        self.parts().next_back()
    }

    /// Whether it is the other path or below it.
    pub fn is_within(&self, other: &Self) -> bool {
        other.is_root()
            || self
                .text
                .strip_prefix(&other.text)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path of an entry in this directory, named by the bytes on disk.
    pub(crate) fn child(&self, name: &[u8]) -> Result<Self, PathError> {
        let mut path = self.clone();
        path.push(name)?;
        Ok(path)
    }

    /// Parses the bytes of a path that the kernel gave, relative to the root.
    pub(crate) fn from_kernel(bytes: &[u8]) -> Result<Self, PathError> {
        let mut path = Self::root();
        for part in bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            path.push(part)?;
        }
        Ok(path)
    }

    /// The bytes to hand to the kernel: `.` for the root.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        name::decode(self.as_str())
    }

    fn push(&mut self, part: &[u8]) -> Result<(), PathError> {
        let text = name::encode(part);
        // An escaped byte takes four characters; the bound holds for both forms, so that a stored path parses again.
        if part.len() > MAX_PART_BYTES || self.text.len() + 1 + text.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        if !self.text.is_empty() {
            self.text.push('/');
        }
        self.text.push_str(&text);
        Ok(())
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_PART_BYTES, MAX_PARTS, PathError, RelPath};

    fn check(text: &str, expected: Result<&str, PathError>) {
        let parsed = RelPath::parse(text);
        assert_eq!(
            parsed.as_ref().map(RelPath::as_str).map_err(|error| *error),
            expected,
            "{text:?}"
        );
    }

    #[test]
    fn paths_are_normalised() {
        check("a.txt", Ok("a.txt"));
        check("./a.txt", Ok("a.txt"));
        check("dir//b.txt", Ok("dir/b.txt"));
        check("dir/./b.txt/", Ok("dir/b.txt"));
        check("", Ok("."));
        check(".", Ok("."));
        check("./", Ok("."));
    }

    #[test]
    fn nothing_is_expanded() {
        for text in [
            "~/x",
            "$HOME",
            "..a",
            ".../x",
            "-rf",
            "a b\n\u{202e}",
            "e\u{301}.txt",
        ] {
            check(text, Ok(text));
        }
    }

    #[test]
    fn escapes_are_refused() {
        check("..", Err(PathError::Parent));
        check("../x", Err(PathError::Parent));
        check("a/../a.txt", Err(PathError::Parent));
        check("a/../../x", Err(PathError::Parent));
        check("/etc/hostname", Err(PathError::Absolute));
        check("//x", Err(PathError::Absolute));
        check("a\0b", Err(PathError::Nul));
    }

    #[test]
    fn lengths_are_bounded() {
        let part = "x".repeat(MAX_PART_BYTES);
        check(&part, Ok(&part));
        check(&format!("{part}x"), Err(PathError::TooLong));
        check(
            &"x/".repeat(MAX_PARTS),
            Ok(&"x/".repeat(MAX_PARTS)[..MAX_PARTS * 2 - 1]),
        );
        check(&"x/".repeat(MAX_PARTS + 1), Err(PathError::TooLong));
        check(&format!("{part}/").repeat(17), Err(PathError::TooLong));
    }

    #[test]
    fn a_byte_has_one_spelling() {
        check("\\xC3\\xA4.txt", Ok("\u{e4}.txt"));
        check("\\xFF", Ok("\\xFF"));
        check("\\x2F\\x2E", Ok("\\x2F\\x2E"));
    }

    #[test]
    fn families() {
        let path = RelPath::parse("a/b/c").unwrap();
        assert_eq!(path.parent().unwrap().as_str(), "a/b");
        assert_eq!(path.file_name(), Some("c"));
        assert!(path.is_within(&RelPath::parse("a/b").unwrap()));
        assert!(!path.is_within(&RelPath::parse("a/b/c/d").unwrap()));
        assert!(
            !RelPath::parse("ab")
                .unwrap()
                .is_within(&RelPath::parse("a").unwrap())
        );
        assert!(RelPath::root().parent().is_none());
    }
}
