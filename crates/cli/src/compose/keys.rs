//! The files with keys in a data directory: what API keys are hashed with, and the admin key of the first start.
//!
//! The admin key is on the disk before the store knows it, under a name that nobody reads, and gets its own name when the
//! store does. So a crash at any moment leaves a key that works or none, never a store that nobody can enter.

use portolan_control_plane::{HashKey, Secret, bootstrap::DEFAULT_TENANT};
use portolan_core::{
    entropy::Entropy,
    key::{AdminStoreError, ApiKey, KeyStore, Scope},
    time::Timestamp,
};
use portolan_store::PostgresStore;
use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// The file with the admin key in a data directory.
pub(crate) const ADMIN_KEY_FILE: &str = "admin.key";
const UNCONFIRMED: &str = "admin.key.unconfirmed";
const HASH_KEY_FILE: &str = "key-hash-secret";
/// `pk_` and 64 hexadecimal digits.
const SECRET_LENGTH: usize = 67;
/// More is no key.
const LONGEST_FILE: u64 = 4_096;

/// Why the keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// A file cannot be read or written.
    #[error("{} cannot be used", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{} does not hold what belongs there", .path.display())]
    Content {
        /// Which.
        path: PathBuf,
    },
    /// The store does not answer.
    #[error("the first tenant could not be made")]
    Store(#[from] AdminStoreError),
}

/// What this start did with the admin key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AdminKey {
    /// It made one, and wrote it there.
    Written(PathBuf),
    /// There was one.
    Kept,
}

/// Sees to it that an empty store gets its first tenant and key. Of servers that start together on one database one makes it, and
/// it is that one's file which holds the key.
pub(super) async fn prepare(
    directory: &Path,
    hash_key: &HashKey,
    keys: &dyn KeyStore,
    entropy: &dyn Entropy,
    at: Timestamp,
) -> Result<AdminKey, KeyFileError> {
    let unconfirmed = directory.join(UNCONFIRMED);
    let secret = match read(&unconfirmed)? {
        // A start was cut between writing the key and telling the store, or between that and here. A part of a key is none:
        // the store was not told before the whole was on the disk.
        Some(text) if text.trim().len() == SECRET_LENGTH => Secret::parse(text.trim()),
        Some(_) | None => None,
    };
    let secret = match secret {
        Some(secret) => secret,
        None => {
            let secret = Secret::draw(entropy);
            write(&unconfirmed, format!("{}\n", secret.reveal()).as_bytes())?;
            secret
        }
    };
    let secret_hash = secret.hash(hash_key);
    let key = ApiKey {
        id: entropy.key_id(at),
        tenant: entropy.tenant_id(at),
        name: "admin".to_owned(),
        scopes: BTreeSet::from([Scope::Admin]),
        secret_hash,
        created_at: at,
        expires_at: None,
    };
    let made = keys.bootstrap(DEFAULT_TENANT, key).await?;
    if made || keys.key_by_hash(secret_hash).await?.is_some() {
        let path = directory.join(ADMIN_KEY_FILE);
        fs::rename(&unconfirmed, &path).map_err(failed(&path))?;
        sync(directory)?;
        return Ok(AdminKey::Written(path));
    }
    fs::remove_file(&unconfirmed).map_err(failed(&unconfirmed))?;
    Ok(AdminKey::Kept)
}

/// What API keys are hashed with on a database that several servers use: it lies there, so that all have the same.
pub(super) async fn shared_hash_key(
    store: &PostgresStore,
    entropy: &dyn Entropy,
) -> Result<HashKey, KeyFileError> {
    let mut fresh = [0_u8; 32];
    entropy.fill(&mut fresh);
    Ok(HashKey::new(store.key_hash_secret(fresh).await?))
}

/// Reads what API keys are hashed with from the data directory, or makes it.
pub(super) fn hash_key(directory: &Path, entropy: &dyn Entropy) -> Result<HashKey, KeyFileError> {
    let path = directory.join(HASH_KEY_FILE);
    if let Some(text) = read(&path)? {
        let bytes = parse_hex(text.trim());
        return bytes.map(HashKey::new).ok_or(KeyFileError::Content { path });
    }
    let mut bytes = [0_u8; 32];
    entropy.fill(&mut bytes);
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let fresh = directory.join(format!("{HASH_KEY_FILE}.new"));
    write(&fresh, format!("{text}\n").as_bytes())?;
    fs::rename(&fresh, &path).map_err(failed(&path))?;
    sync(directory)?;
    Ok(HashKey::new(bytes))
}

fn parse_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0_u8; 32];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Reads the admin key of a data directory, as the command line does.
pub(crate) fn read_admin_key(directory: &Path) -> Result<Option<String>, KeyFileError> {
    let text = read(&directory.join(ADMIN_KEY_FILE))?;
    Ok(text.map(|text| text.trim().to_owned()))
}

fn read(path: &Path) -> Result<Option<String>, KeyFileError> {
    use std::io::Read as _;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path)(error)),
    };
    let mut text = String::new();
    file.take(LONGEST_FILE)
        .read_to_string(&mut text)
        .map_err(failed(path))?;
    Ok(Some(text))
}

/// Writes a file that only its owner reads, onto the disk.
fn write(path: &Path, bytes: &[u8]) -> Result<(), KeyFileError> {
    let written = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    written().map_err(failed(path))?;
    path.parent().map_or(Ok(()), sync)
}

fn sync(directory: &Path) -> Result<(), KeyFileError> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(failed(directory))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> KeyFileError {
    let path = path.to_owned();
    move |source| KeyFileError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_engine::ambient::OsEntropy;
    use portolan_store::SqliteStore;
    use std::os::unix::fs::PermissionsExt as _;

    async fn start(directory: &Path) -> AdminKey {
        let store = SqliteStore::open(directory).expect("opens");
        let hash_key = hash_key(directory, &OsEntropy).expect("made");
        let key = prepare(directory, &hash_key, &store, &OsEntropy, Timestamp::EPOCH)
            .await
            .expect("prepared");
        store.close().await;
        key
    }

    #[tokio::test]
    async fn the_first_start_makes_the_key_and_later_ones_keep_it() {
        let data = tempfile::tempdir().expect("made");
        let path = data.path().join(ADMIN_KEY_FILE);
        assert_eq!(start(data.path()).await, AdminKey::Written(path.clone()));
        let key = read_admin_key(data.path()).expect("readable").expect("there");
        assert!(Secret::parse(&key).is_some());
        for file in [&path, &data.path().join(HASH_KEY_FILE)] {
            let mode = fs::metadata(file).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
        assert_eq!(start(data.path()).await, AdminKey::Kept);
        assert_eq!(read_admin_key(data.path()).expect("readable"), Some(key));
        fs::remove_file(&path).expect("there");
        assert_eq!(start(data.path()).await, AdminKey::Kept);
        assert_eq!(
            read_admin_key(data.path()).expect("readable"),
            None,
            "a removed key stays removed"
        );
        assert!(!data.path().join(UNCONFIRMED).exists());
    }

    #[tokio::test]
    async fn a_start_that_was_cut_is_completed_by_the_next_one() {
        // Before the store knew the key.
        let data = tempfile::tempdir().expect("made");
        let whole = format!("pk_{}", "ab".repeat(32));
        fs::write(data.path().join(UNCONFIRMED), format!("{whole}\n")).expect("written");
        assert!(matches!(start(data.path()).await, AdminKey::Written(_)));
        assert_eq!(
            read_admin_key(data.path()).expect("readable").as_ref(),
            Some(&whole)
        );
        // After the store knew it.
        fs::rename(data.path().join(ADMIN_KEY_FILE), data.path().join(UNCONFIRMED)).expect("renamed");
        assert!(matches!(start(data.path()).await, AdminKey::Written(_)));
        assert_eq!(
            read_admin_key(data.path()).expect("readable").as_ref(),
            Some(&whole)
        );
    }

    #[tokio::test]
    async fn a_part_of_a_key_is_never_taken_for_one() {
        let data = tempfile::tempdir().expect("made");
        fs::write(data.path().join(UNCONFIRMED), "pk_ab").expect("written");
        assert!(matches!(start(data.path()).await, AdminKey::Written(_)));
        let key = read_admin_key(data.path()).expect("readable").expect("there");
        assert_eq!(key.len(), SECRET_LENGTH);
    }

    #[test]
    fn a_damaged_hash_key_is_refused_rather_than_replaced() {
        let data = tempfile::tempdir().expect("made");
        fs::write(data.path().join(HASH_KEY_FILE), "short").expect("written");
        let refused = hash_key(data.path(), &OsEntropy);
        assert!(matches!(refused, Err(KeyFileError::Content { .. })));
    }
}
