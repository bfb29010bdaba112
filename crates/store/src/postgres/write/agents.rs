//! Agent definitions: immutable versions behind a name.

use super::{
    super::{
        fault::Fault,
        lane::{Commit, Write},
        read,
    },
    execute,
};
use deadpool_postgres::ClientWrapper;
use portolan_core::{
    Fut,
    agent::{AgentDefinition, AgentName, AgentVersion},
    ids::{AgentId, TenantId},
    time::Timestamp,
};

/// A definition that becomes the newest version of its agent.
pub(in super::super) struct PutAgent {
    pub(in super::super) tenant: TenantId,
    pub(in super::super) fresh_id: AgentId,
    pub(in super::super) definition: AgentDefinition,
    pub(in super::super) at: Timestamp,
}

impl Write for PutAgent {
    type Answer = AgentVersion;
    const COMMIT: Commit = Commit::Transaction;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<AgentVersion, Fault>> {
        Box::pin(put(self, client))
    }
}

async fn put(request: &PutAgent, client: &ClientWrapper) -> Result<AgentVersion, Fault> {
    let name = &request.definition.name;
    let tenant = request.tenant.as_bytes().as_slice();
    // The row of the agent is what writers of versions wait at; the first of them makes it.
    let sql = "INSERT INTO agents (tenant_id, agent_id, name, newest) VALUES ($1, $2, $3, 0)
        ON CONFLICT (tenant_id, name) DO UPDATE SET newest = agents.newest";
    let fresh = request.fresh_id.as_bytes().as_slice();
    execute(client, sql, &[&tenant, &fresh, &name.as_str()]).await?;
    let newest = read::agent(client, request.tenant, name, None).await?;
    let (id, version) = match newest {
        Some(newest) if newest.definition == request.definition => {
            let sql = "UPDATE agents SET retired = 0 WHERE tenant_id = $1 AND name = $2 AND retired <> 0";
            execute(client, sql, &[&tenant, &name.as_str()]).await?;
            return Ok(AgentVersion {
                retired: false,
                ..newest
            });
        }
        Some(newest) => (newest.id, newest.version.saturating_add(1)),
        None => (request.fresh_id, 1),
    };
    let number = i64::from(version);
    let sql = "UPDATE agents SET newest = $3, retired = 0 WHERE tenant_id = $1 AND name = $2";
    execute(client, sql, &[&tenant, &name.as_str(), &number]).await?;
    let definition = serde_json::to_string(&request.definition)
        .map_err(|error| Fault::Refused(format!("the definition cannot be written: {error}")))?;
    let sql = "INSERT INTO agent_versions (tenant_id, agent_id, version, definition, created_at) VALUES ($1, $2, $3, $4, $5)";
    let id_bytes = id.as_bytes().as_slice();
    execute(
        client,
        sql,
        &[&tenant, &id_bytes, &number, &definition, &request.at.0],
    )
    .await?;
    Ok(AgentVersion {
        id,
        version,
        definition: request.definition.clone(),
        created_at: request.at,
        retired: false,
    })
}

/// An agent that takes no new runs.
pub(in super::super) struct RetireAgent {
    pub(in super::super) tenant: TenantId,
    pub(in super::super) name: AgentName,
}

impl Write for RetireAgent {
    type Answer = bool;
    const COMMIT: Commit = Commit::Itself;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let sql = "UPDATE agents SET retired = 1 WHERE tenant_id = $1 AND name = $2";
            let tenant = self.tenant.as_bytes().as_slice();
            Ok(execute(client, sql, &[&tenant, &self.name.as_str()]).await? > 0)
        })
    }
}
