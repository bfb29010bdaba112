//! What all handlers share: the ports, the caches and the configuration.

use crate::{agents::cache::AgentCache, auth::KeyCache, host::RunHost};
use portolan_core::{agent::AgentStore, entropy::Entropy, key::KeyStore, time::Clock};
use portolan_journal::{JournalStore, blob::BlobStore};
use std::{fmt, ops::Deref, sync::Arc};
use tokio_util::sync::CancellationToken;

/// The key that secrets and cursors are hashed with. It stays with the server.
#[derive(Clone)]
pub struct HashKey([u8; 32]);

impl HashKey {
    /// Wraps thirty-two secret bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The keyed digest of some bytes.
    pub(crate) fn hash(&self, bytes: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.0, bytes).as_bytes()
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey")
    }
}

/// Bounds and intervals of the API. All times are in milliseconds.
#[derive(Debug, Clone)]
pub struct ApiConfig {
    /// The largest body.
    pub max_body_bytes: usize,
    /// Time for a whole body.
    pub body_timeout_ms: u64,
    /// The longest request target.
    pub max_uri_bytes: usize,
    /// All header fields together.
    pub max_header_bytes: usize,
    /// The most header fields.
    pub max_headers: usize,
    /// How long a looked-up key is believed; a revoked one works that long at most.
    pub key_ttl_ms: u64,
    /// How long a looked-up agent is believed.
    pub agent_ttl_ms: u64,
    /// Between two comments of a silent stream.
    pub heartbeat_ms: u64,
    /// Between two looks at the store of somebody who waits for a signal.
    pub poll_ms: u64,
    /// How long an idempotency key is kept.
    pub idempotency_ttl_ms: u64,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            max_body_bytes: 1024 * 1024,
            body_timeout_ms: 30_000,
            max_uri_bytes: 16 * 1024,
            max_header_bytes: 32 * 1024,
            max_headers: 100,
            key_ttl_ms: 4_000,
            agent_ttl_ms: 2_000,
            heartbeat_ms: 15_000,
            poll_ms: 2_000,
            idempotency_ttl_ms: 25 * 60 * 60 * 1_000,
        }
    }
}

/// Everything that the API stands on.
pub struct Deps {
    /// Runs and their journals.
    pub journal: Arc<dyn JournalStore>,
    /// The contents of artifacts.
    pub blobs: Arc<dyn BlobStore>,
    /// Agent definitions.
    pub agents: Arc<dyn AgentStore>,
    /// Tenants and their keys.
    pub keys: Arc<dyn KeyStore>,
    /// Who executes runs.
    pub host: Arc<dyn RunHost>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// What secrets and cursors are hashed with.
    pub hash_key: HashKey,
    /// Cancelled when the server begins to drain: waits and streams end.
    pub shutdown: CancellationToken,
    /// Bounds and intervals.
    pub config: ApiConfig,
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps")
            .field("journal", &self.journal)
            .field("host", &self.host)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// The state behind all routes.
#[derive(Debug)]
pub(crate) struct Api {
    deps: Deps,
    pub(crate) key_cache: KeyCache,
    pub(crate) agent_cache: AgentCache,
}

impl Api {
    pub(crate) fn new(deps: Deps) -> Self {
        Self {
            deps,
            key_cache: KeyCache::default(),
            agent_cache: AgentCache::default(),
        }
    }
}

impl Deref for Api {
    type Target = Deps;

    fn deref(&self) -> &Deps {
        &self.deps
    }
}
