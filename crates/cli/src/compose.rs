//! Puts a server together: the store, the engine, the API and the socket, each behind the ports of the others.
//!
//! One process owns a data directory, so on SQLite a restart takes over whatever its predecessor left, at once; on a shared Postgres
//! a run is taken over when its lease has run out. Nothing of a workspace outlives its process but through the journal: the directories are made anew from it.

mod administer;
mod keys;
mod models;
mod store;
mod workspaces;

pub(crate) use administer::{Administered, administer};
pub use keys::KeyFileError;
pub(crate) use keys::read_admin_key;
pub(crate) use models::{RouterModels, registry};
pub use workspaces::Workspaces;
pub(crate) use workspaces::policy;

use crate::config::Config;
use keys::AdminKey;
use portolan_control_plane::{
    ApiConfig, Deps as ApiDeps, InlineHost, ServeLimits,
    serve::{Drained, serve},
};
use portolan_core::{entropy::Entropy, time::Clock};
use portolan_engine::{
    DefinitionPreparer, Deps, Host, HostAbilities, HostOptions, NoLedger, Unobserved,
    ambient::{OsEntropy, SystemClock},
};
use portolan_journal::blob::BlobError;
use portolan_router::{HttpClientError, PriceTable, PriceTableError, ProviderConfigError};
use portolan_store::{StoreOpenError, postgres::PostgresOpenError};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{Opened, Store};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// How often readiness is looked at.
const READY_POLL_MS: u64 = 2;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// It would answer beyond this host in the clear.
    #[error("{0} can be reached from other machines, and this server has no encryption")]
    OpenListen(SocketAddr),
    /// The address cannot be taken.
    #[error("the address {address} cannot be listened on")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error("the store in {} cannot be opened", .directory.display())]
    Store {
        /// The data directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: StoreOpenError,
    },
    /// The shared database cannot be used.
    #[error("the database cannot be used")]
    Database(#[from] PostgresOpenError),
    /// The blobs cannot be used.
    #[error("the files of runs in {} cannot be kept", .directory.display())]
    Blobs {
        /// The data directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: BlobError,
    },
    /// The workspaces cannot be made.
    #[error("the workspaces in {} cannot be used", .directory.display())]
    Workspaces {
        /// The data directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The keys cannot be read or made.
    #[error("the keys of the server cannot be used")]
    Keys(#[from] KeyFileError),
    /// A provider cannot be set up.
    #[error("a provider cannot be set up")]
    Provider(#[from] ProviderConfigError),
    /// There is no way to providers.
    #[error("the way to providers cannot be set up")]
    Http(#[from] HttpClientError),
    /// A price is stated for nothing.
    #[error("a stated price cannot be used")]
    Price(#[from] PriceTableError),
    /// A thread that opened something died.
    #[error("the start was interrupted")]
    Interrupted,
}

/// A server that answers.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    admin_key: AdminKey,
    host: Arc<Host>,
    store: Store,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
    api: JoinHandle<Drained>,
    tasks: [JoinHandle<()>; 2],
}

/// Starts a server as the configuration says.
pub async fn server(config: &Config) -> Result<RunningServer, ComposeError> {
    let listen = config.listen.value;
    if !listen.ip().is_loopback() && !config.insecure_listen.value {
        return Err(ComposeError::OpenListen(listen));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
    let models = Arc::new(RouterModels::new(registry(config, Arc::clone(&clock))?));
    let prices = Arc::new(PriceTable::with_overrides(config.prices.clone())?);

    let directory = config.data.value.clone();
    let Opened {
        store,
        blobs,
        workspaces,
    } = store::open(config).await?;
    let listener = TcpListener::bind(listen)
        .await
        .and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = listener.map_err(|source| ComposeError::Listen {
        address: listen,
        source,
    })?;
    let hash_key = match &store {
        Store::Sqlite(_) => keys::hash_key(&directory, &*entropy)?,
        Store::Postgres { store, .. } => keys::shared_hash_key(store, &*entropy).await?,
    };
    let admin_key = keys::prepare(&directory, &hash_key, &*store.keys(), &*entropy, clock.now()).await?;

    let defaults = HostOptions::default();
    let sweep_ms = config.sweep_ms.value.or_else(|| store.sweep_ms());
    let host = Host::new(
        Deps {
            journal: store.journal(),
            blobs: blobs.clone(),
            agents: store.agents(),
            models,
            prices,
            preparer: Arc::new(DefinitionPreparer::new(Arc::new(workspaces))),
            ledger: Arc::new(NoLedger),
            observer: Arc::new(Unobserved),
            clock: Arc::clone(&clock),
            entropy: Arc::clone(&entropy),
        },
        HostOptions {
            max_concurrent_runs: config.max_concurrent_runs.value,
            lease_ms: config.lease_ms.value.unwrap_or(defaults.lease_ms),
            sweep_ms: sweep_ms.unwrap_or(defaults.sweep_ms),
            dead: store.dead_owners(),
        },
    );
    let abilities = HostAbilities {
        allow_host_shell: config.allow_host_shell.value,
    };
    let shutdown = CancellationToken::new();
    let router = portolan_control_plane::router(ApiDeps {
        journal: store.journal(),
        blobs,
        agents: store.agents(),
        keys: store.keys(),
        host: Arc::new(InlineHost::new(Arc::clone(&host), abilities)),
        clock: Arc::clone(&clock),
        entropy,
        hash_key,
        shutdown: shutdown.clone(),
        config: ApiConfig::default(),
    });
    let sweeping = Arc::clone(&host);
    let renewing = Arc::clone(&host);
    let tasks = [
        tokio::spawn(async move { sweeping.run().await }),
        tokio::spawn(async move { renewing.renew_leases().await }),
    ];
    let api = tokio::spawn(serve(
        listener,
        router,
        ServeLimits::default(),
        Arc::clone(&clock),
        shutdown.clone(),
    ));
    Ok(RunningServer {
        address,
        admin_key,
        host,
        store,
        clock,
        shutdown,
        api,
        tasks,
    })
}

impl RunningServer {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file with the admin key, if this start made it.
    pub fn fresh_admin_key(&self) -> Option<&Path> {
        match &self.admin_key {
            AdminKey::Written(path) => Some(path),
            AdminKey::Kept => None,
        }
    }

    /// How many runs are driven now.
    pub fn driven_runs(&self) -> usize {
        self.host.driven_runs()
    }

    /// Waits until interrupted runs have been looked for once. The API answers before that, but is not ready.
    pub async fn ready(&self) {
        while !self.host.first_sweep_done() && !self.host.is_draining() {
            self.clock.sleep_ms(READY_POLL_MS).await;
        }
    }

    /// Stops taking work, lets the steps in flight finish for that long, gives the runs back and closes the store.
    pub async fn drain(self, grace_ms: u64) {
        self.shutdown.cancel();
        self.host.drain(grace_ms).await;
        match self.api.await {
            Ok(Drained::Cleanly) => {}
            Ok(Drained::Cut(connections)) => tracing::warn!(connections, "connections were cut"),
            Err(error) => tracing::error!(%error, "the API ended by a defect"),
        }
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the host ended by a defect");
            }
        }
        self.store.close().await;
    }
}
