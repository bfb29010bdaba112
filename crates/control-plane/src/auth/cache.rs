//! Keys that were looked up a moment ago, so that authentication does not cost a read for each request.

use super::Principal;
use crate::{api::Api, problem::Problem};
use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

/// More keys than this are not remembered at once.
const MOST: usize = 10_000;

/// A cache of valid keys. What is not valid is never remembered, so a new key works at once.
#[derive(Debug, Default)]
pub(crate) struct KeyCache(RwLock<HashMap<[u8; 32], Entry>>);

#[derive(Debug)]
struct Entry {
    principal: Arc<Principal>,
    /// On the monotonic clock, in microseconds.
    until: u64,
}

impl KeyCache {
    /// The owner of the secret with this digest, if it may ask now.
    pub(crate) async fn look_up(
        &self,
        secret_hash: [u8; 32],
        api: &Api,
    ) -> Result<Option<Arc<Principal>>, Problem> {
        let now_us = api.clock.monotonic_us();
        let known = self.remembered(&secret_hash, now_us);
        let principal = match known {
            Some(principal) => principal,
            None => {
                let Some(key) = api.keys.key_by_hash(secret_hash).await? else {
                    self.entries_mut().remove(&secret_hash);
                    return Ok(None);
                };
                let principal = Arc::new(Principal {
                    tenant: key.tenant,
                    key: key.id,
                    scopes: key.scopes,
                    expires_at: key.expires_at,
                    secret_hash,
                });
                let until = now_us + api.config.key_ttl_ms * 1_000;
                self.remember(Arc::clone(&principal), until, now_us);
                principal
            }
        };
        let expired = principal.expires_at.is_some_and(|end| end <= api.clock.now());
        Ok((!expired).then_some(principal))
    }

    fn remembered(&self, secret_hash: &[u8; 32], now_us: u64) -> Option<Arc<Principal>> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(secret_hash).filter(|entry| entry.until > now_us)?;
        Some(Arc::clone(&entry.principal))
    }

    fn remember(&self, principal: Arc<Principal>, until: u64, now_us: u64) {
        let mut entries = self.entries_mut();
        if entries.len() >= MOST {
            entries.retain(|_, entry| entry.until > now_us);
            if entries.len() >= MOST {
                entries.clear();
            }
        }
        entries.insert(principal.secret_hash, Entry { principal, until });
    }

    fn entries_mut(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<[u8; 32], Entry>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
