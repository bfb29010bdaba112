//! Fake stores of keys and agents.

use portolan_core::{
    Fut,
    agent::{AgentDefinition, AgentName, AgentStore, AgentVersion},
    entropy::Entropy,
    ids::{AgentId, TenantId},
    key::{AdminStoreError, ApiKey, KeyStore, Scope},
    time::Timestamp,
};
use portolan_engine::ambient::OsEntropy;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

fn ready<T: Send + 'static>(value: T) -> Fut<'static, Result<T, AdminStoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

#[derive(Debug, Default)]
pub(crate) struct FakeKeys {
    keys: Mutex<HashMap<[u8; 32], ApiKey>>,
    pub(crate) look_ups: AtomicUsize,
}

impl FakeKeys {
    pub(crate) fn insert(&self, tenant: TenantId, scopes: BTreeSet<Scope>, hash: [u8; 32], at: Timestamp) {
        let entropy: &dyn Entropy = &OsEntropy;
        let key = ApiKey {
            id: entropy.key_id(at),
            tenant,
            name: "test".to_owned(),
            scopes,
            secret_hash: hash,
            created_at: at,
            expires_at: None,
        };
        self.keys.lock().expect("no panic").insert(hash, key);
    }

    /// Changes the only key with that digest.
    pub(crate) fn change(&self, hash: &[u8; 32], change: impl FnOnce(&mut ApiKey)) {
        change(self.keys.lock().expect("no panic").get_mut(hash).expect("a key"));
    }

    pub(crate) fn revoke(&self, hash: &[u8; 32]) {
        self.keys.lock().expect("no panic").remove(hash);
    }
}

impl KeyStore for FakeKeys {
    fn bootstrap(&self, _tenant_name: &str, key: ApiKey) -> Fut<'_, Result<bool, AdminStoreError>> {
        let mut keys = self.keys.lock().expect("no panic");
        let fresh = keys.is_empty();
        if fresh {
            keys.insert(key.secret_hash, key);
        }
        ready(fresh)
    }

    fn key_by_hash(&self, secret_hash: [u8; 32]) -> Fut<'_, Result<Option<ApiKey>, AdminStoreError>> {
        self.look_ups.fetch_add(1, Ordering::SeqCst);
        ready(self.keys.lock().expect("no panic").get(&secret_hash).cloned())
    }
}

#[derive(Debug, Default)]
pub(crate) struct FakeAgents(Mutex<BTreeMap<(TenantId, AgentName), Vec<AgentVersion>>>);

impl AgentStore for FakeAgents {
    fn put_agent(
        &self,
        tenant: TenantId,
        fresh_id: AgentId,
        definition: AgentDefinition,
        at: Timestamp,
    ) -> Fut<'_, Result<AgentVersion, AdminStoreError>> {
        let mut agents = self.0.lock().expect("no panic");
        let versions = agents.entry((tenant, definition.name.clone())).or_default();
        let id = versions.first().map_or(fresh_id, |first| first.id);
        versions.iter_mut().for_each(|version| version.retired = false);
        if versions.last().is_none_or(|last| last.definition != definition) {
            versions.push(AgentVersion {
                id,
                version: u32::try_from(versions.len() + 1).expect("few"),
                definition,
                created_at: at,
                retired: false,
            });
        }
        ready(versions.last().expect("one was pushed").clone())
    }

    fn agent(
        &self,
        tenant: TenantId,
        name: AgentName,
        version: Option<u32>,
    ) -> Fut<'_, Result<Option<AgentVersion>, AdminStoreError>> {
        let agents = self.0.lock().expect("no panic");
        let versions = agents.get(&(tenant, name));
        let found = versions.and_then(|versions| match version {
            None => versions.last(),
            Some(number) => versions.iter().find(|version| version.version == number),
        });
        ready(found.cloned())
    }

    fn agents(
        &self,
        tenant: TenantId,
        after: Option<AgentName>,
        limit: u32,
    ) -> Fut<'_, Result<Vec<AgentVersion>, AdminStoreError>> {
        let agents = self.0.lock().expect("no panic");
        let newest = agents.iter().filter_map(|((owner, name), versions)| {
            let last = versions.last()?;
            let shown = *owner == tenant && !last.retired && after.as_ref().is_none_or(|after| name > after);
            shown.then(|| last.clone())
        });
        ready(newest.take(usize::try_from(limit).expect("small")).collect())
    }

    fn retire_agent(&self, tenant: TenantId, name: AgentName) -> Fut<'_, Result<bool, AdminStoreError>> {
        let mut agents = self.0.lock().expect("no panic");
        let versions = agents.get_mut(&(tenant, name));
        let found = versions.is_some();
        versions
            .into_iter()
            .flatten()
            .for_each(|version| version.retired = true);
        ready(found)
    }
}
