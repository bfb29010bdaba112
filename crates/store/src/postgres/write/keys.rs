//! The first tenant with its first key, and what all replicas must have in common.

use super::{
    super::{
        fault::Fault,
        lane::{Commit, Write},
        read,
    },
    execute, query,
};
use deadpool_postgres::ClientWrapper;
use portolan_core::{Fut, key::ApiKey};

/// Makes the first tenant, unless there is one.
pub(in super::super) struct Bootstrap {
    pub(in super::super) tenant_name: String,
    pub(in super::super) key: ApiKey,
}

impl Write for Bootstrap {
    type Answer = bool;
    const COMMIT: Commit = Commit::Transaction;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let key = &self.key;
            let scopes = serde_json::to_string(&key.scopes)
                .map_err(|error| Fault::Refused(format!("the scopes cannot be written: {error}")))?;
            let tenant = key.tenant.as_bytes().as_slice();
            // Of replicas that start together the others wait here for the first, and find its row.
            let sql = "INSERT INTO first_tenant (id, tenant_id) SELECT 1, $1 WHERE NOT EXISTS (SELECT 1 FROM tenants)
                ON CONFLICT (id) DO NOTHING";
            if execute(client, sql, &[&tenant]).await? == 0 {
                return Ok(false);
            }
            let sql = "INSERT INTO tenants (tenant_id, name, created_at) VALUES ($1, $2, $3)";
            execute(client, sql, &[&tenant, &self.tenant_name, &key.created_at.0]).await?;
            let sql =
                "INSERT INTO api_keys (tenant_id, key_id, name, scopes, secret_hash, created_at, expires_at)
                VALUES ($1, $2, $3, $4, $5, $6, $7)";
            let (id, hash) = (key.id.as_bytes().as_slice(), key.secret_hash.as_slice());
            let expires_at = key.expires_at.map(|at| at.0);
            execute(
                client,
                sql,
                &[
                    &tenant,
                    &id,
                    &key.name,
                    &scopes,
                    &hash,
                    &key.created_at.0,
                    &expires_at,
                ],
            )
            .await?;
            Ok(true)
        })
    }
}

/// A secret of the whole server: whoever comes first brings it.
pub(in super::super) struct SharedSecret {
    pub(in super::super) name: &'static str,
    pub(in super::super) fresh: [u8; 32],
}

impl Write for SharedSecret {
    type Answer = [u8; 32];
    const COMMIT: Commit = Commit::Transaction;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<[u8; 32], Fault>> {
        Box::pin(async move {
            let sql =
                "INSERT INTO server_secrets (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
            execute(client, sql, &[&self.name, &self.fresh.as_slice()]).await?;
            let sql = "SELECT secret FROM server_secrets WHERE name = $1";
            let rows = query(client, sql, &[&self.name]).await?;
            let row = rows.first();
            let row = row.ok_or_else(|| Fault::Corrupt("a secret of the server is not there".to_owned()))?;
            read::bytes(row, 0)
        })
    }
}
