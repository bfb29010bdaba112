//! The ports of agents and keys on this store.

use super::{
    SqliteStore, fault, read,
    write::{
        agents::{PutAgent, RetireAgent},
        keys::Bootstrap,
    },
};
use portolan_core::{
    Fut,
    agent::{AgentDefinition, AgentName, AgentStore, AgentVersion},
    ids::{AgentId, TenantId},
    key::{AdminStoreError, ApiKey, KeyStore},
    time::Timestamp,
};

impl AgentStore for SqliteStore {
    fn put_agent(
        &self,
        tenant: TenantId,
        fresh_id: AgentId,
        definition: AgentDefinition,
        at: Timestamp,
    ) -> Fut<'_, Result<AgentVersion, AdminStoreError>> {
        let put = PutAgent {
            tenant,
            fresh_id,
            definition,
            at,
        };
        Box::pin(async move { self.write(put).await.map_err(|error| fault::admin(&error)) })
    }

    fn agent(
        &self,
        tenant: TenantId,
        name: AgentName,
        version: Option<u32>,
    ) -> Fut<'_, Result<Option<AgentVersion>, AdminStoreError>> {
        Box::pin(async move {
            self.query(move |connection| read::agent(connection, tenant, &name, version))
                .await
                .map_err(|error| fault::admin(&error))
        })
    }

    fn agents(
        &self,
        tenant: TenantId,
        after: Option<AgentName>,
        limit: u32,
    ) -> Fut<'_, Result<Vec<AgentVersion>, AdminStoreError>> {
        Box::pin(async move {
            self.query(move |connection| read::agents(connection, tenant, after.as_ref(), limit))
                .await
                .map_err(|error| fault::admin(&error))
        })
    }

    fn retire_agent(&self, tenant: TenantId, name: AgentName) -> Fut<'_, Result<bool, AdminStoreError>> {
        let retire = RetireAgent { tenant, name };
        Box::pin(async move { self.write(retire).await.map_err(|error| fault::admin(&error)) })
    }
}

impl KeyStore for SqliteStore {
    fn bootstrap(&self, tenant_name: &str, key: ApiKey) -> Fut<'_, Result<bool, AdminStoreError>> {
        let bootstrap = Bootstrap {
            tenant_name: tenant_name.to_owned(),
            key,
        };
        Box::pin(async move { self.write(bootstrap).await.map_err(|error| fault::admin(&error)) })
    }

    fn key_by_hash(&self, secret_hash: [u8; 32]) -> Fut<'_, Result<Option<ApiKey>, AdminStoreError>> {
        Box::pin(async move {
            self.query(move |connection| read::key_by_hash(connection, secret_hash))
                .await
                .map_err(|error| fault::admin(&error))
        })
    }
}
