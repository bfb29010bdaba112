//! The first start: the tenant `default` and its admin key.

use crate::{api::HashKey, auth::Secret};
use portolan_core::{
    entropy::Entropy,
    key::{AdminStoreError, ApiKey, KeyStore, Scope},
    time::Timestamp,
};
use std::collections::BTreeSet;

/// The tenant that a first start makes.
pub const DEFAULT_TENANT: &str = "default";

/// Makes the default tenant and an admin key in an empty store. The secret exists only in the answer; `None` if the store
/// has a tenant already.
pub async fn admin_key(
    keys: &dyn KeyStore,
    hash_key: &HashKey,
    entropy: &dyn Entropy,
    at: Timestamp,
) -> Result<Option<Secret>, AdminStoreError> {
    let secret = Secret::draw(entropy);
    let key = ApiKey {
        id: entropy.key_id(at),
        tenant: entropy.tenant_id(at),
        name: "admin".to_owned(),
        scopes: BTreeSet::from([Scope::Admin]),
        secret_hash: secret.hash(hash_key),
        created_at: at,
        expires_at: None,
    };
    let made = keys.bootstrap(DEFAULT_TENANT, key).await?;
    Ok(made.then_some(secret))
}
