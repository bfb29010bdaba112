//! The store behind the ports: SQLite in the data directory, or a Postgres that other control planes use too.

use super::{ComposeError, Workspaces};
use crate::config::{Config, DatabaseUrl};
use portolan_core::{agent::AgentStore, key::KeyStore};
use portolan_journal::{DeadOwners, JournalStore, blob::BlobStore};
use portolan_store::{
    FileBlobs, PostgresBlobs, PostgresStore, SqliteStore,
    postgres::PostgresOptions,
    sqlite::{DirectoryLock, hold_directory},
};
use std::{path::PathBuf, sync::Arc};

/// How often a host on a shared database looks for free runs: soon enough for those that another one gave back.
const SHARED_SWEEP_MS: u64 = 1_000;

/// An open store.
#[derive(Debug)]
pub(super) enum Store {
    /// One file, one process.
    Sqlite(Arc<SqliteStore>),
    /// Shared. The data directory holds this process's workspaces and keys, and is its own all the same.
    Postgres {
        store: Arc<PostgresStore>,
        _directory: DirectoryLock,
    },
}

/// What was opened.
pub(super) struct Opened {
    pub(super) store: Store,
    pub(super) blobs: Arc<dyn BlobStore>,
    pub(super) workspaces: Workspaces,
}

impl Store {
    pub(super) fn journal(&self) -> Arc<dyn JournalStore> {
        match self {
            Self::Sqlite(store) => store.clone(),
            Self::Postgres { store, .. } => store.clone(),
        }
    }

    pub(super) fn agents(&self) -> Arc<dyn AgentStore> {
        match self {
            Self::Sqlite(store) => store.clone(),
            Self::Postgres { store, .. } => store.clone(),
        }
    }

    pub(super) fn keys(&self) -> Arc<dyn KeyStore> {
        match self {
            Self::Sqlite(store) => store.clone(),
            Self::Postgres { store, .. } => store.clone(),
        }
    }

    /// Whose runs may be taken over: whoever holds the only store has outlived everybody else.
    pub(super) const fn dead_owners(&self) -> DeadOwners {
        match self {
            Self::Sqlite(_) => DeadOwners::AllOthers,
            Self::Postgres { .. } => DeadOwners::LeaseExpired,
        }
    }

    /// How often free runs are looked for, where nobody says; `None` for the engine's own default.
    pub(super) const fn sweep_ms(&self) -> Option<u64> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres { .. } => Some(SHARED_SWEEP_MS),
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres { store, .. } => store.close().await,
        }
    }
}

/// Opens the store that the configuration names, and what lies in the data directory.
pub(super) async fn open(config: &Config) -> Result<Opened, ComposeError> {
    let directory = config.data.value.clone();
    match &config.database.value {
        None => sqlite(directory).await,
        Some(url) => postgres(directory, url, config).await,
    }
}

/// Opens the data directory on a thread that may block. The store comes first: it holds the directory's lock.
async fn sqlite(directory: PathBuf) -> Result<Opened, ComposeError> {
    blocking(move || {
        let store = SqliteStore::open(&directory).map_err(|source| ComposeError::Store {
            directory: directory.clone(),
            source,
        })?;
        let blobs = FileBlobs::open(&directory).map_err(|source| ComposeError::Blobs {
            directory: directory.clone(),
            source,
        })?;
        Ok(Opened {
            store: Store::Sqlite(Arc::new(store)),
            blobs: Arc::new(blobs),
            workspaces: workspaces(directory)?,
        })
    })
    .await
}

async fn postgres(directory: PathBuf, url: &DatabaseUrl, config: &Config) -> Result<Opened, ComposeError> {
    let (lock, workspaces) = blocking(move || {
        let lock = hold_directory(&directory).map_err(|source| ComposeError::Store {
            directory: directory.clone(),
            source: source.into(),
        })?;
        Ok((lock, workspaces(directory)?))
    })
    .await?;
    let options = PostgresOptions {
        allow_unsafe: config.allow_unsafe_database.value,
        ..PostgresOptions::default()
    };
    let store = Arc::new(PostgresStore::open(url.reveal(), options).await?);
    Ok(Opened {
        blobs: Arc::new(PostgresBlobs::new(Arc::clone(&store))),
        store: Store::Postgres {
            store,
            _directory: lock,
        },
        workspaces,
    })
}

fn workspaces(directory: PathBuf) -> Result<Workspaces, ComposeError> {
    Workspaces::open(&directory).map_err(|source| ComposeError::Workspaces { directory, source })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ComposeError> + Send + 'static,
) -> Result<T, ComposeError> {
    let working = tokio::task::spawn_blocking(work);
    working.await.map_err(|_| ComposeError::Interrupted)?
}
