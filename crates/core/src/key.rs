//! API keys: who may do what, and the port behind which they are kept.

use crate::{
    Fut,
    ids::{KeyId, TenantId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a key may do. `Admin` is every scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "each scope says what it is; api documentation lists what it opens"
)]
pub enum Scope {
    #[serde(rename = "runs:execute")]
    RunsExecute,
    #[serde(rename = "runs:read")]
    RunsRead,
    #[serde(rename = "agents:write")]
    AgentsWrite,
    #[serde(rename = "agents:read")]
    AgentsRead,
    #[serde(rename = "admin")]
    Admin,
}

impl Scope {
    /// The printed name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunsExecute => "runs:execute",
            Self::RunsRead => "runs:read",
            Self::AgentsWrite => "agents:write",
            Self::AgentsRead => "agents:read",
            Self::Admin => "admin",
        }
    }
}

/// A stored key: everything but the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// Its tenant.
    pub tenant: TenantId,
    /// What a person calls it.
    pub name: String,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// Hash of the secret under the server's own key.
    pub secret_hash: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
}

/// A failure of a store of small administrative objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store cannot be used: {0}")]
pub struct AdminStoreError(pub String);

/// Where tenants and API keys are kept.
pub trait KeyStore: Send + Sync {
    /// Makes the first tenant with its first key, unless there is a tenant already. True if it did.
    fn bootstrap(&self, tenant_name: &str, key: ApiKey) -> Fut<'_, Result<bool, AdminStoreError>>;

    /// The key with this hash, if there is one.
    fn key_by_hash(&self, secret_hash: [u8; 32]) -> Fut<'_, Result<Option<ApiKey>, AdminStoreError>>;
}
