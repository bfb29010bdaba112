//! The newest versions of agents that were looked up a moment ago, so that a new run does not cost a read of its agent.

use crate::{api::Api, problem::Problem};
use portolan_core::{
    agent::{AgentName, AgentVersion},
    ids::TenantId,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

/// More agents than this are not remembered at once.
const MOST: usize = 10_000;

/// A cache of the newest versions. What was changed through this process is forgotten at once, anything else soon.
#[derive(Debug, Default)]
pub(crate) struct AgentCache {
    entries: RwLock<HashMap<(TenantId, AgentName), Entry>>,
    /// Raised by every change, so that a read that began before it is not remembered.
    changes: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    agent: Arc<AgentVersion>,
    /// On the monotonic clock, in microseconds.
    until: u64,
}

impl AgentCache {
    /// The newest version of an agent, retired or not.
    pub(crate) async fn newest(
        &self,
        tenant: TenantId,
        name: AgentName,
        api: &Api,
    ) -> Result<Option<Arc<AgentVersion>>, Problem> {
        let now_us = api.clock.monotonic_us();
        let key = (tenant, name);
        if let Some(agent) = self.remembered(&key, now_us) {
            return Ok(Some(agent));
        }
        let changes = self.changes.load(Ordering::Acquire);
        let Some(agent) = api.agents.agent(tenant, key.1.clone(), None).await? else {
            return Ok(None);
        };
        let agent = Arc::new(agent);
        let mut entries = self.entries_mut();
        if self.changes.load(Ordering::Acquire) == changes {
            if entries.len() >= MOST {
                entries.clear();
            }
            let entry = Entry {
                agent: Arc::clone(&agent),
                until: now_us + api.config.agent_ttl_ms * 1_000,
            };
            entries.insert(key, entry);
        }
        Ok(Some(agent))
    }

    /// Forgets an agent that was changed.
    pub(crate) fn forget(&self, tenant: TenantId, name: &AgentName) {
        let mut entries = self.entries_mut();
        self.changes.fetch_add(1, Ordering::AcqRel);
        entries.remove(&(tenant, name.clone()));
    }

    fn remembered(&self, key: &(TenantId, AgentName), now_us: u64) -> Option<Arc<AgentVersion>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(key).filter(|entry| entry.until > now_us)?;
        Some(Arc::clone(&entry.agent))
    }

    fn entries_mut(&self) -> RwLockWriteGuard<'_, HashMap<(TenantId, AgentName), Entry>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}
