//! Budget scopes: their books under a lock, and their limits.

use super::{
    super::{
        fault::Fault,
        lane::{Commit, Write},
        read,
    },
    execute, query,
};
use crate::{
    code,
    judge::{OpenBooks, scope_column},
};
use deadpool_postgres::ClientWrapper;
use portolan_core::{Fut, agent::AgentName, ids::TenantId, money::NanoUsd};
use portolan_journal::{ScopeBooks, ScopeKey};

/// Locks the books of the scopes that a run of this agent counts in, tenant first: everybody takes them in that order.
pub(super) async fn lock(
    client: &ClientWrapper,
    tenant: TenantId,
    agent: &AgentName,
) -> Result<Vec<OpenBooks>, Fault> {
    let sql = "SELECT agent, bound, settled, reserved FROM budget_scopes
        WHERE tenant_id = $1 AND agent IN ('', $2) ORDER BY agent FOR UPDATE";
    let rows = query(client, sql, &[&tenant.as_bytes().as_slice(), &agent.as_str()]).await?;
    rows.iter()
        .map(|row| {
            let column: &str = read::get(row, 0)?;
            Ok(OpenBooks {
                scope: match column {
                    "" => ScopeKey::Tenant,
                    agent => ScopeKey::Agent(code::agent_name(agent)?),
                },
                books: ScopeBooks {
                    limit: code::money(read::get(row, 1)?)?,
                    settled: code::money(read::get(row, 2)?)?,
                    reserved: code::money(read::get(row, 3)?)?,
                },
            })
        })
        .collect()
}

/// Writes the books back.
pub(super) async fn keep(
    client: &ClientWrapper,
    tenant: TenantId,
    scopes: &[OpenBooks],
) -> Result<(), Fault> {
    for OpenBooks { scope, books } in scopes {
        let sql = "UPDATE budget_scopes SET settled = $3, reserved = $4 WHERE tenant_id = $1 AND agent = $2";
        let (settled, reserved) = (code::from_money(books.settled), code::from_money(books.reserved));
        let tenant = tenant.as_bytes().as_slice();
        execute(client, sql, &[&tenant, &scope_column(scope), &settled, &reserved]).await?;
    }
    Ok(())
}

/// Sets or lifts a limit.
pub(in super::super) struct SetLimit {
    pub(in super::super) tenant: TenantId,
    pub(in super::super) scope: ScopeKey,
    pub(in super::super) limit: Option<NanoUsd>,
}

impl Write for SetLimit {
    type Answer = ();
    const COMMIT: Commit = Commit::Transaction;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<(), Fault>> {
        Box::pin(async move {
            // Nobody moves money while the books open or close: whoever came before is in the sum, whoever comes later
            // sees the scope.
            client.batch_execute("LOCK TABLE runs IN EXCLUSIVE MODE").await?;
            let (tenant, agent) = (self.tenant.as_bytes().as_slice(), scope_column(&self.scope));
            match self.limit {
                Some(limit) => {
                    let sql = "INSERT INTO budget_scopes (tenant_id, agent, bound, reserved)
                        SELECT $1, $2, $3, least(coalesce(sum(reserved), 0), 9223372036854775807)::bigint
                        FROM runs WHERE tenant_id = $1 AND status < 3 AND ($2 = '' OR agent = $2)
                        ON CONFLICT (tenant_id, agent) DO UPDATE SET bound = excluded.bound";
                    execute(client, sql, &[&tenant, &agent, &code::from_money(limit)]).await?;
                }
                None => {
                    let sql = "DELETE FROM budget_scopes WHERE tenant_id = $1 AND agent = $2";
                    execute(client, sql, &[&tenant, &agent]).await?;
                }
            }
            Ok(())
        })
    }
}
