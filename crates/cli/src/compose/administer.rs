//! A store that is opened by the holder of an admin key instead of a server.

use super::{
    keys::{self, read_admin_key},
    store::{self, Opened, Store},
};
use crate::{
    Failure,
    config::{Config, process_environment},
    failure::OrFail as _,
};
use portolan_control_plane::Secret;
use portolan_core::{ids::TenantId, key::Scope, time::Clock as _};
use portolan_engine::ambient::{OsEntropy, SystemClock};
use portolan_journal::{JournalStore, blob::BlobStore};
use std::sync::Arc;

/// An open store, and whose key opened it.
pub(crate) struct Administered {
    store: Store,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) tenant: TenantId,
}

impl Administered {
    pub(crate) fn journal(&self) -> Arc<dyn JournalStore> {
        self.store.journal()
    }

    pub(crate) async fn close(&self) {
        self.store.close().await;
    }
}

/// Opens the store that the configuration names. On SQLite no server may hold it.
pub(crate) async fn administer(config: &Config) -> Result<Administered, Failure> {
    let directory = &config.data.value;
    let key = match process_environment("PORTOLAN_API_KEY") {
        Some(key) => Some(key),
        None => read_admin_key(directory).or_usage(|| "the admin key cannot be read".to_owned())?,
    };
    let key = key.as_deref().and_then(|key| Secret::parse(key.trim()));
    let key = key.ok_or_else(|| {
        Failure::usage("there is no admin key")
            .hint("name the data directory of a server with --data, or set PORTOLAN_API_KEY")
    })?;
    if config.database.value.is_none() && !directory.join("portolan.db").is_file() {
        return Err(Failure::usage(format!(
            "{} is no data directory",
            directory.display()
        )));
    }
    let opened = store::open(config).await;
    let Opened { store, blobs, .. } = opened
        .or_unavailable(|| "the store cannot be opened".to_owned())
        .map_err(|failure| failure.hint("stop the server that uses it"))?;
    let hash_key = match &store {
        Store::Sqlite(_) => keys::hash_key(directory, &OsEntropy),
        Store::Postgres { store, .. } => keys::shared_hash_key(store, &OsEntropy).await,
    };
    let hash_key = hash_key.or_unavailable(|| "the keys of the store cannot be read".to_owned())?;
    let known = store.keys().key_by_hash(key.hash(&hash_key)).await;
    let known = known.or_unavailable(|| "the keys of the store cannot be read".to_owned())?;
    let now = SystemClock::new().now();
    let admin = known.filter(|key| {
        key.scopes.contains(&Scope::Admin) && key.expires_at.is_none_or(|expires| expires > now)
    });
    let Some(admin) = admin else {
        store.close().await;
        return Err(Failure::usage("the key is no admin key of this store"));
    };
    Ok(Administered {
        store,
        blobs,
        tenant: admin.tenant,
    })
}
