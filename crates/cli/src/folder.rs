//! Folders of this machine that a command takes in: as files of a definition, or copied as a whole.
//!
//! The person at the terminal named the folder. Still nothing is followed out of it, and size and number are bounded.

use crate::failure::{Failure, OrFail as _};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use portolan_core::agent::FileContent;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// The most files that are taken in.
const MAX_FILES: usize = 100_000;
/// The most bytes that are copied.
const MAX_COPY_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// The most bytes that become part of a definition: more does not fit into a request.
const MAX_INLINE_BYTES: u64 = 16 * 1024 * 1024;

/// One thing in a folder.
#[derive(Debug)]
enum Found {
    Directory,
    File(u64),
    Link(PathBuf),
    /// A socket, a pipe or a device.
    Other,
}

/// Everything below a folder by its path with `/`, parents first.
fn walk(root: &Path) -> Result<BTreeMap<String, Found>, Failure> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![(root.to_owned(), String::new())];
    while let Some((directory, prefix)) = waiting.pop() {
        let unreadable = || format!("the folder {} cannot be read", directory.display());
        for entry in fs::read_dir(&directory).or_usage(unreadable)? {
            let entry = entry.or_usage(unreadable)?;
            let path = entry.path();
            let name = entry.file_name().into_string().map_err(|name| {
                Failure::usage(format!(
                    "the name {} in {} is no UTF-8",
                    name.display(),
                    directory.display()
                ))
            })?;
            let key = format!("{prefix}{name}");
            let metadata =
                fs::symlink_metadata(&path).or_usage(|| format!("{} cannot be read", path.display()))?;
            let kind = metadata.file_type();
            let one = if kind.is_dir() {
                waiting.push((path, format!("{key}/")));
                Found::Directory
            } else if kind.is_file() {
                Found::File(metadata.len())
            } else if kind.is_symlink() {
                Found::Link(fs::read_link(&path).or_usage(|| format!("{} cannot be read", path.display()))?)
            } else {
                Found::Other
            };
            found.insert(key, one);
            if found.len() > MAX_FILES {
                return Err(Failure::usage(format!(
                    "{} has more than {MAX_FILES} entries",
                    root.display()
                )));
            }
        }
    }
    Ok(found)
}

fn sum(found: &BTreeMap<String, Found>) -> u64 {
    let sizes = found
        .values()
        .map(|one| if let Found::File(size) = one { *size } else { 0 });
    sizes.sum()
}

/// The regular files below a folder as content of a definition. Links and other things are refused by name.
pub(crate) fn inline(root: &Path) -> Result<BTreeMap<String, FileContent>, Failure> {
    let found = walk(root)?;
    if sum(&found) > MAX_INLINE_BYTES {
        let limit = MAX_INLINE_BYTES / 1024 / 1024;
        return Err(
            Failure::usage(format!("{} has more than {limit} MiB", root.display()))
                .hint("name a smaller folder: its files become part of what is sent"),
        );
    }
    let mut files = BTreeMap::new();
    for (path, one) in found {
        match one {
            Found::Directory => {}
            Found::File(_) => {
                let full = root.join(&path);
                let bytes = fs::read(&full).or_usage(|| format!("{} cannot be read", full.display()))?;
                files.insert(path, content(bytes));
            }
            Found::Link(_) | Found::Other => {
                return Err(
                    Failure::usage(format!("{} is no regular file", root.join(path).display()))
                        .hint("a definition holds regular files only"),
                );
            }
        }
    }
    Ok(files)
}

/// Bytes as content: text where they are text.
fn content(bytes: Vec<u8>) -> FileContent {
    match String::from_utf8(bytes) {
        Ok(text) => FileContent::Text(text),
        Err(error) => FileContent::Base64 {
            base64: STANDARD.encode(error.as_bytes()),
        },
    }
}

/// Copies a folder with its links and modes. Sockets, pipes and devices are left out.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let found = walk(from)?;
    if sum(&found) > MAX_COPY_BYTES {
        let limit = MAX_COPY_BYTES / 1024 / 1024 / 1024;
        return Err(
            Failure::usage(format!("{} has more than {limit} GiB", from.display()))
                .hint("work on a smaller folder, or on the folder itself with --in-place"),
        );
    }
    for (path, one) in found {
        let (source, target) = (from.join(&path), to.join(&path));
        let done = match one {
            Found::Directory => fs::create_dir(&target),
            Found::File(_) => fs::copy(&source, &target).map(drop),
            Found::Link(points_at) => symlink(points_at, &target),
            Found::Other => Ok(()),
        };
        done.or_unavailable(|| format!("{} cannot be copied", source.display()))?;
    }
    Ok(())
}

/// Writes content below a folder. The paths were judged: they are relative and stay inside.
pub(crate) fn write(root: &Path, path: &str, bytes: &[u8]) -> Result<(), Failure> {
    let stays_inside = path
        .split('/')
        .all(|part| !part.is_empty() && part != "." && part != "..");
    if !stays_inside || path.contains('\0') {
        return Err(Failure::unavailable(format!(
            "{path:?} is no path within a folder"
        )));
    }
    let target = root.join(path);
    let parent = target.parent().unwrap_or(root);
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(&target, bytes));
    written.or_unavailable(|| format!("{} cannot be written", target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_becomes_content_and_is_copied_with_its_links() {
        let (from, to) = (
            tempfile::tempdir().expect("made"),
            tempfile::tempdir().expect("made"),
        );
        write(from.path(), "a/b.txt", b"text").expect("written");
        write(from.path(), "raw", &[0xff, 0]).expect("written");
        let files = inline(from.path()).expect("regular files only");
        assert_eq!(files["a/b.txt"], FileContent::Text("text".to_owned()));
        assert_eq!(files["raw"].bytes(), Some(vec![0xff, 0]));
        symlink("a/b.txt", from.path().join("link")).expect("made");
        assert!(inline(from.path()).is_err(), "a link is refused");
        copy(from.path(), to.path()).expect("copied");
        assert_eq!(
            fs::read_link(to.path().join("link")).expect("a link"),
            Path::new("a/b.txt")
        );
        assert_eq!(fs::read(to.path().join("a/b.txt")).expect("there"), b"text");
        for bad in ["../x", "a//b", "/x", "", "."] {
            assert!(write(to.path(), bad, b"").is_err(), "{bad:?}");
        }
    }
}
