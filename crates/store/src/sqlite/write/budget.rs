//! Budget scopes: which have a limit, whether there is room, and the moves between their books.

use super::super::{
    batch::{Tx, Write},
    code,
    fault::Fault,
};
use crate::{
    judge::{OpenBooks, scope_column},
    sql,
};
use portolan_core::{agent::AgentName, ids::TenantId, money::NanoUsd};
use portolan_journal::{ScopeBooks, ScopeKey};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeSet, HashMap};

/// The scopes with a limit, so that a tenant without any costs no statement. Only the writer changes them.
#[derive(Debug, Default)]
pub(in super::super) struct Scopes(HashMap<TenantId, BTreeSet<ScopeKey>>);

impl Scopes {
    /// Reads them.
    pub(in super::super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let mut scopes = Self::default();
        let mut statement = connection.prepare_cached("SELECT tenant_id, agent FROM budget_scopes")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let agent: String = row.get(1)?;
            let scope = match agent.parse::<AgentName>() {
                Ok(agent) => ScopeKey::Agent(agent),
                // Every other text is no agent's: the whole tenant is the safe reading.
                Err(_) => ScopeKey::Tenant,
            };
            let tenant = TenantId::from_bytes(row.get(0)?);
            scopes.0.entry(tenant).or_default().insert(scope);
        }
        Ok(scopes)
    }

    /// Whether the tenant has none.
    pub(super) fn are_none(&self, tenant: TenantId) -> bool {
        !self.0.contains_key(&tenant)
    }

    /// The books of the scopes that a run of this agent counts in, tenant first.
    pub(super) fn books_of(
        &self,
        connection: &Connection,
        tenant: TenantId,
        agent: &AgentName,
    ) -> Result<Vec<OpenBooks>, Fault> {
        let Some(open) = self.0.get(&tenant) else {
            return Ok(Vec::new());
        };
        let mut books = Vec::new();
        for scope in [ScopeKey::Tenant, ScopeKey::Agent(agent.clone())] {
            if open.contains(&scope)
                && let Some(kept) = read(connection, tenant, &scope)?
            {
                books.push(OpenBooks { scope, books: kept });
            }
        }
        Ok(books)
    }
}

/// Writes the books back.
pub(super) fn keep(connection: &Connection, tenant: TenantId, scopes: &[OpenBooks]) -> Result<(), Fault> {
    for OpenBooks { scope, books } in scopes {
        connection
            .prepare_cached(
                "UPDATE budget_scopes SET settled = ?3, reserved = ?4 WHERE tenant_id = ?1 AND agent = ?2",
            )?
            .execute(params![
                tenant.as_bytes(),
                scope_column(scope),
                code::from_money(books.settled),
                code::from_money(books.reserved)
            ])?;
    }
    Ok(())
}

/// The books of a scope, if it has a limit.
pub(in super::super) fn read(
    connection: &Connection,
    tenant: TenantId,
    scope: &ScopeKey,
) -> Result<Option<ScopeBooks>, Fault> {
    let found = connection
        .prepare_cached(sql::BOOKS)?
        .query_row(params![tenant.as_bytes(), scope_column(scope)], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((limit, settled, reserved)) = found else {
        return Ok(None);
    };
    Ok(Some(ScopeBooks {
        limit: code::money(limit)?,
        settled: code::money(settled)?,
        reserved: code::money(reserved)?,
    }))
}

/// Sets or lifts a limit.
pub(in super::super) struct SetLimit {
    pub(in super::super) tenant: TenantId,
    pub(in super::super) scope: ScopeKey,
    pub(in super::super) limit: Option<NanoUsd>,
}

impl Write for SetLimit {
    type Answer = ();

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let (tenant, agent) = (self.tenant.as_bytes(), scope_column(&self.scope));
        let open = tx.scopes.0.entry(self.tenant).or_default();
        match self.limit {
            Some(limit) => {
                // Books that open now begin with what the runs hold that have not ended: each of them will take it out
                // again when it ends.
                tx.connection
                    .prepare_cached(
                        "INSERT INTO budget_scopes (tenant_id, agent, bound, reserved)
                         SELECT ?1, ?2, ?3, coalesce(sum(reserved), 0)
                         FROM runs WHERE tenant_id = ?1 AND status < 3 AND (?2 = '' OR agent = ?2)
                         ON CONFLICT (tenant_id, agent) DO UPDATE SET bound = excluded.bound",
                    )?
                    .execute(params![tenant, agent, code::from_money(limit)])?;
                open.insert(self.scope.clone());
            }
            None => {
                tx.connection
                    .prepare_cached("DELETE FROM budget_scopes WHERE tenant_id = ?1 AND agent = ?2")?
                    .execute(params![tenant, agent])?;
                open.remove(&self.scope);
            }
        }
        if open.is_empty() {
            tx.scopes.0.remove(&self.tenant);
        }
        Ok(())
    }
}
