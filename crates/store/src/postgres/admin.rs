//! The ports of agents and keys on this store.

use super::{
    PostgresStore, Queue, fault, read,
    write::{
        agents::{PutAgent, RetireAgent},
        keys::{Bootstrap, SharedSecret},
    },
};
use portolan_core::{
    Fut,
    agent::{AgentDefinition, AgentName, AgentStore, AgentVersion},
    ids::{AgentId, TenantId},
    key::{AdminStoreError, ApiKey, KeyStore},
    time::Timestamp,
};

/// What API keys are hashed with.
const KEY_HASH: &str = "key-hash";

impl PostgresStore {
    /// The secret under which all replicas hash API keys: the one that is kept, or the fresh one if there is none.
    pub async fn key_hash_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], AdminStoreError> {
        let secret = SharedSecret {
            name: KEY_HASH,
            fresh,
        };
        self.write(Queue::Rest, secret)
            .await
            .map_err(|error| fault::admin(&error))
    }
}

impl AgentStore for PostgresStore {
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
        Box::pin(async move {
            let put = self.write(Queue::Rest, put).await;
            put.map_err(|error| fault::admin(&error))
        })
    }

    fn agent(
        &self,
        tenant: TenantId,
        name: AgentName,
        version: Option<u32>,
    ) -> Fut<'_, Result<Option<AgentVersion>, AdminStoreError>> {
        Box::pin(async move {
            self.reading(move |client| {
                Box::pin(async move { read::agent(client, tenant, &name, version).await })
            })
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
            self.reading(move |client| {
                Box::pin(async move { read::agents(client, tenant, after.as_ref(), limit).await })
            })
            .await
            .map_err(|error| fault::admin(&error))
        })
    }

    fn retire_agent(&self, tenant: TenantId, name: AgentName) -> Fut<'_, Result<bool, AdminStoreError>> {
        let retire = RetireAgent { tenant, name };
        Box::pin(async move {
            let retired = self.write(Queue::Rest, retire).await;
            retired.map_err(|error| fault::admin(&error))
        })
    }
}

impl KeyStore for PostgresStore {
    fn bootstrap(&self, tenant_name: &str, key: ApiKey) -> Fut<'_, Result<bool, AdminStoreError>> {
        let bootstrap = Bootstrap {
            tenant_name: tenant_name.to_owned(),
            key,
        };
        Box::pin(async move {
            let made = self.write(Queue::Rest, bootstrap).await;
            made.map_err(|error| fault::admin(&error))
        })
    }

    fn key_by_hash(&self, secret_hash: [u8; 32]) -> Fut<'_, Result<Option<ApiKey>, AdminStoreError>> {
        Box::pin(async move {
            self.reading(move |client| Box::pin(read::key_by_hash(client, secret_hash)))
                .await
                .map_err(|error| fault::admin(&error))
        })
    }
}
