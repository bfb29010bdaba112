//! Claims: runs that are queued, due, or whose owner is dead, oldest first.

use super::super::{
    batch::{Tx, Write},
    code,
    fault::Fault,
};
use portolan_core::ids::{Epoch, RunId, TenantId};
use portolan_journal::{ClaimRequest, Claimed, DeadOwners, RunRef};
use rusqlite::{Connection, Params, Row, params};

/// A worker that looks for runs.
pub(in super::super) struct TakeRuns(pub(in super::super) ClaimRequest);

impl Write for TakeRuns {
    type Answer = Vec<Claimed>;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Vec<Claimed>, Fault> {
        let request = &self.0;
        let mut free = unowned(tx.connection, request)?;
        free.extend(due(tx.connection, request)?);
        free.extend(cancelled(tx.connection, request)?);
        free.extend(orphaned(tx.connection, request)?);
        free.sort_unstable_by_key(|at| at.run);
        free.dedup();
        free.truncate(usize::try_from(request.max).unwrap_or(usize::MAX));
        // A run that waited and was woken as agreed is not re-driven; one whose owner died is, whatever it did.
        let mut take = tx.connection.prepare_cached(
            "UPDATE runs SET epoch = epoch + 1, owner = ?3, lease_until = ?4, wake_at = iif(status = 2, wake_at, NULL),
                 redrives = redrives + (epoch > 0 AND (status <> 2 OR owner IS NOT NULL))
             WHERE tenant_id = ?1 AND run_id = ?2
             RETURNING epoch, redrives",
        )?;
        let mut claimed = Vec::with_capacity(free.len());
        for run in free {
            let claim = &request.claim;
            let bound = params![
                run.tenant.as_bytes(),
                run.run.as_bytes(),
                claim.owner.as_bytes(),
                claim.lease_until.0
            ];
            let (epoch, redrives) = take.query_row(bound, |row| Ok((row.get(0)?, row.get(1)?)))?;
            claimed.push(Claimed {
                run,
                epoch: Epoch(code::count(epoch)?),
                redrives: code::small(redrives)?,
            });
        }
        Ok(claimed)
    }
}

/// Queued and running runs that nobody owns. There may be many, so each tenant shows its oldest only.
fn unowned(connection: &Connection, request: &ClaimRequest) -> Result<Vec<RunRef>, Fault> {
    per_tenant(
        connection,
        "SELECT tenant_id FROM runs INDEXED BY runs_free
         WHERE owner IS NULL AND status < 2 AND tenant_id > ?1 ORDER BY tenant_id LIMIT 1",
        |tenant| {
            let sql = "SELECT tenant_id, run_id FROM runs INDEXED BY runs_free
                WHERE owner IS NULL AND status < 2 AND tenant_id = ?1 ORDER BY run_id LIMIT ?2";
            runs(connection, sql, params![tenant.as_bytes(), request.max])
        },
    )
}

/// Waiting runs whose time has come.
fn due(connection: &Connection, request: &ClaimRequest) -> Result<Vec<RunRef>, Fault> {
    per_tenant(
        connection,
        "SELECT tenant_id FROM runs INDEXED BY runs_due
         WHERE owner IS NULL AND status = 2 AND tenant_id > ?1 ORDER BY tenant_id LIMIT 1",
        |tenant| {
            let sql = "SELECT tenant_id, run_id FROM runs INDEXED BY runs_due
                WHERE owner IS NULL AND status = 2 AND tenant_id = ?1 AND wake_at <= ?2 ORDER BY run_id LIMIT ?3";
            runs(
                connection,
                sql,
                params![tenant.as_bytes(), request.now.0, request.max],
            )
        },
    )
}

/// Waiting runs that somebody wants to end. There are few.
fn cancelled(connection: &Connection, request: &ClaimRequest) -> Result<Vec<RunRef>, Fault> {
    let sql = "SELECT tenant_id, run_id FROM runs INDEXED BY runs_cancelled
        WHERE status = 2 AND cancel_requested_at IS NOT NULL AND owner IS NULL ORDER BY run_id LIMIT ?1";
    runs(connection, sql, params![request.max])
}

/// Runs whose owner is dead. There are no more of them than workers had places.
fn orphaned(connection: &Connection, request: &ClaimRequest) -> Result<Vec<RunRef>, Fault> {
    let awake = "(status < 2 OR cancel_requested_at IS NOT NULL OR wake_at <= ?2)";
    let (owner, now) = (request.claim.owner.as_bytes(), request.now.0);
    match request.dead {
        DeadOwners::AllOthers => {
            let sql = format!(
                "SELECT tenant_id, run_id FROM runs INDEXED BY runs_owned
                 WHERE owner IS NOT NULL AND (owner <> ?1 OR lease_until IS NULL OR lease_until <= ?2) AND {awake} ORDER BY run_id LIMIT ?3"
            );
            runs(connection, &sql, params![owner, now, request.max])
        }
        DeadOwners::LeaseExpired => {
            let sql = format!(
                "SELECT tenant_id, run_id FROM runs INDEXED BY runs_owned
                 WHERE owner IS NOT NULL AND (lease_until IS NULL OR lease_until <= ?2) AND {awake} ORDER BY run_id LIMIT ?1"
            );
            runs(connection, &sql, params![request.max, now])
        }
    }
}

/// Asks for each tenant in turn, so that an index which begins with the tenant answers in order.
fn per_tenant(
    connection: &Connection,
    next_tenant: &str,
    ask: impl Fn(TenantId) -> Result<Vec<RunRef>, Fault>,
) -> Result<Vec<RunRef>, Fault> {
    let mut found = Vec::new();
    let mut after: Vec<u8> = Vec::new();
    loop {
        let mut statement = connection.prepare_cached(next_tenant)?;
        let mut rows = statement.query(params![after])?;
        let Some(row) = rows.next()? else {
            return Ok(found);
        };
        let tenant = TenantId::from_bytes(row.get(0)?);
        found.extend(ask(tenant)?);
        after = tenant.as_bytes().to_vec();
    }
}

fn runs(connection: &Connection, sql: &str, bound: impl Params) -> Result<Vec<RunRef>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        Ok(RunRef {
            tenant: TenantId::from_bytes(row.get(0)?),
            run: RunId::from_bytes(row.get(1)?),
        })
    };
    Ok(statement.query_map(bound, read)?.collect::<Result<_, _>>()?)
}
