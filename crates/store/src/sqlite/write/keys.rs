//! The first tenant with its first key.

use super::super::{
    batch::{Tx, Write},
    fault::Fault,
};
use portolan_core::key::ApiKey;
use rusqlite::params;

/// Makes the first tenant, unless there is one.
pub(in super::super) struct Bootstrap {
    pub(in super::super) tenant_name: String,
    pub(in super::super) key: ApiKey,
}

impl Write for Bootstrap {
    type Answer = bool;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let key = &self.key;
        let scopes = serde_json::to_string(&key.scopes)
            .map_err(|error| Fault::Refused(format!("the scopes cannot be written: {error}")))?;
        let made = tx
            .connection
            .prepare_cached(
                "INSERT INTO tenants (tenant_id, name, created_at) SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM tenants)",
            )?
            .execute(params![key.tenant.as_bytes(), self.tenant_name, key.created_at.0])?;
        if made == 0 {
            return Ok(false);
        }
        tx.connection
            .prepare_cached(
                "INSERT INTO api_keys (tenant_id, key_id, name, scopes, secret_hash, created_at, expires_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                key.tenant.as_bytes(),
                key.id.as_bytes(),
                key.name,
                scopes,
                key.secret_hash,
                key.created_at.0,
                key.expires_at.map(|at| at.0)
            ])?;
        Ok(true)
    }
}
