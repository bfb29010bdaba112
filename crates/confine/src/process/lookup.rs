//! Finding a program on the path of the command, not on that of the host's process.

use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// The file of a program. A name with a `/` is taken as it is, relative to the command's directory.
///
/// Entries of the path that are empty or relative are passed over: they would run whatever a workspace holds under the
/// name of a system program.
pub(super) fn find(program: &str, path: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let directories = path
        .split(':')
        .map(Path::new)
        .filter(|directory| directory.is_absolute());
    directories
        .map(|directory| directory.join(program))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::find;
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    #[test]
    fn only_programs_in_absolute_directories_count() {
        let first = tempfile::tempdir().unwrap();
        let second = tempfile::tempdir().unwrap();
        fs::create_dir(first.path().join("tool")).unwrap();
        fs::write(first.path().join("data"), "").unwrap();
        for name in ["tool", "data"] {
            let file = second.path().join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!(":.:bin:{}:{}", first.path().display(), second.path().display());
        assert_eq!(find("tool", &path), Some(second.path().join("tool")));
        assert_eq!(find("data", &path), Some(second.path().join("data")));
        assert_eq!(find("absent", &path), None);
        assert_eq!(find("./x", &path).as_deref(), Some(Path::new("./x")));
    }
}
