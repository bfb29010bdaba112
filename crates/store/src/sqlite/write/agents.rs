//! Agent definitions: immutable versions behind a name.

use super::super::{
    batch::{Tx, Write},
    fault::Fault,
    read,
};
use portolan_core::{
    agent::{AgentDefinition, AgentName, AgentVersion},
    ids::{AgentId, TenantId},
    time::Timestamp,
};
use rusqlite::{Connection, params};

/// A definition that becomes the newest version of its agent.
pub(in super::super) struct PutAgent {
    pub(in super::super) tenant: TenantId,
    pub(in super::super) fresh_id: AgentId,
    pub(in super::super) definition: AgentDefinition,
    pub(in super::super) at: Timestamp,
}

impl PutAgent {
    fn insert_version(&self, connection: &Connection, id: AgentId, version: u32) -> Result<(), Fault> {
        let definition = serde_json::to_string(&self.definition)
            .map_err(|error| Fault::Refused(format!("the definition cannot be written: {error}")))?;
        connection
            .prepare_cached(
                "INSERT INTO agent_versions (tenant_id, agent_id, version, definition, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                self.tenant.as_bytes(),
                id.as_bytes(),
                version,
                definition,
                self.at.0
            ])?;
        Ok(())
    }
}

impl Write for PutAgent {
    type Answer = AgentVersion;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<AgentVersion, Fault> {
        let name = &self.definition.name;
        let newest = read::agent(tx.connection, self.tenant, name, None)?;
        let (id, version) = match newest {
            Some(newest) if newest.definition == self.definition => {
                tx.connection
                    .prepare_cached(
                        "UPDATE agents SET retired = 0 WHERE tenant_id = ?1 AND name = ?2 AND retired <> 0",
                    )?
                    .execute(params![self.tenant.as_bytes(), name.as_str()])?;
                return Ok(AgentVersion {
                    retired: false,
                    ..newest
                });
            }
            Some(newest) => (newest.id, newest.version.saturating_add(1)),
            None => (self.fresh_id, 1),
        };
        tx.connection
            .prepare_cached(
                "INSERT INTO agents (tenant_id, agent_id, name, newest) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (tenant_id, name) DO UPDATE SET newest = excluded.newest, retired = 0",
            )?
            .execute(params![
                self.tenant.as_bytes(),
                id.as_bytes(),
                name.as_str(),
                version
            ])?;
        self.insert_version(tx.connection, id, version)?;
        Ok(AgentVersion {
            id,
            version,
            definition: self.definition.clone(),
            created_at: self.at,
            retired: false,
        })
    }
}

/// An agent that takes no new runs.
pub(in super::super) struct RetireAgent {
    pub(in super::super) tenant: TenantId,
    pub(in super::super) name: AgentName,
}

impl Write for RetireAgent {
    type Answer = bool;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let changed = tx
            .connection
            .prepare_cached("UPDATE agents SET retired = 1 WHERE tenant_id = ?1 AND name = ?2")?
            .execute(params![self.tenant.as_bytes(), self.name.as_str()])?;
        Ok(changed > 0)
    }
}
