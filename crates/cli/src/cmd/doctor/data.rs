//! The data directory: may this user write it, does anybody hold it, would a commit survive a power cut.

use super::Finding;
use portolan_store::{
    SqliteStore, StoreOpenError,
    sqlite::{self, DirectoryError},
};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

/// `f_type` of file systems that keep nothing or lock badly, from `linux/magic.h`.
const TMPFS: u64 = 0x0102_1994;
const NFS: u64 = 0x6969;
const SMB2: u64 = 0xfe53_4d42;

/// Looks at the directory without making it.
pub(super) async fn check(directory: &Path) -> Vec<Finding> {
    let mut findings = vec![permissions(directory)];
    let existing = existing(directory);
    findings.extend(existing.map(file_system));
    findings.extend(store(directory).await);
    findings
}

/// The same for a server whose store is elsewhere: its workspaces and its keys lie there.
pub(super) fn without_store(directory: &Path) -> Vec<Finding> {
    let mut findings = vec![permissions(directory)];
    findings.extend(existing(directory).map(file_system));
    findings
}

/// The directory itself, or the nearest one above it that is there.
fn existing(directory: &Path) -> Option<&Path> {
    let absolute = directory.ancestors().find(|path| path.exists());
    absolute.or_else(|| directory.is_relative().then_some(Path::new(".")))
}

fn permissions(directory: &Path) -> Finding {
    const CHECK: &str = "data directory";
    let shown = directory.display();
    let metadata = match fs::metadata(directory) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let above = existing(directory).unwrap_or_else(|| Path::new("."));
            if rustix::fs::access(above, rustix::fs::Access::WRITE_OK).is_err() {
                let detail = format!("{shown} is not there, and {} cannot be written", above.display());
                return Finding::fail(
                    CHECK,
                    detail,
                    "choose a directory that this user may write, with --data",
                );
            }
            return Finding::ok(CHECK, format!("{shown} will be made by the first start"));
        }
        Err(error) => {
            return Finding::fail(
                CHECK,
                format!("{shown} cannot be looked at: {error}"),
                "choose another with --data",
            );
        }
    };
    if !metadata.is_dir() {
        return Finding::fail(
            CHECK,
            format!("{shown} is no directory"),
            "choose another with --data",
        );
    }
    if rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_err() {
        return Finding::fail(
            CHECK,
            format!("{shown} cannot be written"),
            format!("chown {shown} to this user"),
        );
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Finding::warn(
            CHECK,
            format!("{shown} can be entered by others (mode {mode:o})"),
            format!("chmod 700 {shown}"),
        );
    }
    Finding::ok(CHECK, format!("{shown}, mode {mode:o}"))
}

fn file_system(directory: &Path) -> Finding {
    const CHECK: &str = "file system";
    let stat = match rustix::fs::statfs(directory) {
        Ok(stat) => stat,
        Err(error) => {
            return Finding::warn(
                CHECK,
                format!("it cannot be looked at: {error}"),
                "check the mount",
            );
        }
    };
    // Platforms differ in the width and sign of the field, which holds a number of 32 bits.
    let known = [(TMPFS, "tmpfs"), (NFS, "network"), (SMB2, "network")];
    let kind = known
        .into_iter()
        .find(|(magic, _)| i128::from(stat.f_type) & 0xffff_ffff == i128::from(*magic));
    match kind.map(|(_, kind)| kind) {
        Some("tmpfs") => Finding::warn(
            CHECK,
            "the data would lie in memory (tmpfs) and not survive a restart of the machine",
            "choose a directory on a disk with --data",
        ),
        Some(_) => Finding::warn(
            CHECK,
            "the data would lie on a network file system, whose locks and flushes cannot be relied on",
            "choose a directory on a local disk with --data",
        ),
        None => Finding::ok(CHECK, "local"),
    }
}

/// Opens the store of the directory, or of an empty one if there is none: opening proves the version and the settings.
async fn store(directory: &Path) -> Vec<Finding> {
    let has_store = directory.join("portolan.db").exists();
    let opened = match has_store {
        true => open(directory.to_owned()).await,
        false => match tempfile::tempdir() {
            // The store makes the directory itself, for its owner alone.
            Ok(scratch) => open(scratch.path().join("data")).await,
            Err(error) => return vec![Finding::warn("database", error.to_string(), "check TMPDIR")],
        },
    };
    let version = format!("SQLite {}", sqlite::library_version());
    let durable = format!("{version}, journal_mode=wal, synchronous=full");
    match (opened, has_store) {
        (Ok(()), true) => vec![
            Finding::ok("lock", "nobody holds the data directory"),
            Finding::ok("database", durable),
        ],
        (Ok(()), false) => vec![Finding::ok("database", durable)],
        (Err(StoreOpenError::Directory(DirectoryError::InUse { .. })), _) => vec![
            Finding::ok("lock", "a running server holds the data directory"),
            Finding::ok(
                "database",
                format!("{version}; the running server has proved its settings"),
            ),
        ],
        (Err(error), _) => {
            let mut detail = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                detail = format!("{detail}: {cause}");
                source = cause.source();
            }
            vec![Finding::fail(
                "database",
                detail,
                "restore the data directory from a backup, or choose another",
            )]
        }
    }
}

async fn open(directory: std::path::PathBuf) -> Result<(), StoreOpenError> {
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&directory)).await;
    match opened {
        Ok(Ok(store)) => {
            store.close().await;
            Ok(())
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(StoreOpenError::Thread(std::io::Error::other(
            "the thread that opened it ended",
        ))),
    }
}
