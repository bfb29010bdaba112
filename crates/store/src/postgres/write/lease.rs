//! Leases: kept by those who live, ended by those who leave.

use super::{
    super::{
        fault::Fault,
        lane::{Commit, Write},
        read,
    },
    execute, query,
};
use crate::code;
use deadpool_postgres::ClientWrapper;
use portolan_core::{Fut, ids::Epoch};
use portolan_journal::{RenewRequest, Renewed, RunRef};
use std::collections::BTreeSet;

/// A worker that is alive.
pub(in super::super) struct Renew(pub(in super::super) RenewRequest);

/// Runs with their generations as columns, in the order in which everybody locks them.
struct Columns {
    tenants: Vec<Vec<u8>>,
    runs: Vec<Vec<u8>>,
    epochs: Vec<i64>,
    active_ms: Vec<i64>,
}

impl Columns {
    fn of(mut runs: Vec<(RunRef, Epoch, u64)>) -> Self {
        runs.sort_unstable_by_key(|(run, ..)| *run);
        Self {
            tenants: runs
                .iter()
                .map(|(run, ..)| run.tenant.as_bytes().to_vec())
                .collect(),
            runs: runs.iter().map(|(run, ..)| run.run.as_bytes().to_vec()).collect(),
            epochs: runs
                .iter()
                .map(|(_, epoch, _)| code::from_count(epoch.0))
                .collect(),
            active_ms: runs
                .iter()
                .map(|(.., active_ms)| code::from_count(*active_ms))
                .collect(),
        }
    }
}

impl Write for Renew {
    type Answer = Renewed;
    const COMMIT: Commit = Commit::Itself;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<Renewed, Fault>> {
        Box::pin(async move {
            let RenewRequest { claim, runs } = &self.0;
            let asked = Columns::of(runs.clone());
            let owner = claim.owner.as_bytes().as_slice();
            let sql = "
                WITH asked AS MATERIALIZED (
                    SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[])
                        AS a (tenant_id, run_id, epoch, active_ms)
                ), locked AS MATERIALIZED (
                    SELECT r.tenant_id, r.run_id, a.active_ms
                    FROM runs AS r JOIN asked AS a ON a.tenant_id = r.tenant_id AND a.run_id = r.run_id
                    WHERE r.epoch = a.epoch AND r.owner = $5
                    ORDER BY r.tenant_id, r.run_id FOR NO KEY UPDATE OF r
                )
                UPDATE runs AS r SET lease_until = $6, active_ms = greatest(r.active_ms, l.active_ms)
                FROM locked AS l WHERE r.tenant_id = l.tenant_id AND r.run_id = l.run_id
                RETURNING r.tenant_id, r.run_id, r.inbox_count";
            let rows = query(
                client,
                sql,
                &[
                    &asked.tenants,
                    &asked.runs,
                    &asked.epochs,
                    &asked.active_ms,
                    &owner,
                    &claim.lease_until.0,
                ],
            )
            .await?;
            let (mut kept, mut commanded) = (BTreeSet::new(), BTreeSet::new());
            for row in &rows {
                let run = RunRef {
                    tenant: read::tenant(row, 0)?,
                    run: read::run_id(row, 1)?,
                };
                kept.insert(run);
                if read::get::<i64>(row, 2)? > 0 {
                    commanded.insert(run);
                }
            }
            let runs = runs.iter().map(|(run, ..)| *run);
            Ok(Renewed {
                lost: runs.clone().filter(|run| !kept.contains(run)).collect(),
                commanded: runs.filter(|run| commanded.contains(run)).collect(),
            })
        })
    }
}

/// Runs that their owner gives back.
pub(in super::super) struct GiveBack(pub(in super::super) Vec<(RunRef, Epoch)>);

impl Write for GiveBack {
    type Answer = ();
    const COMMIT: Commit = Commit::Itself;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<(), Fault>> {
        Box::pin(async move {
            let runs = self.0.iter().map(|(run, epoch)| (*run, *epoch, 0)).collect();
            let asked = Columns::of(runs);
            let sql = "
                WITH locked AS MATERIALIZED (
                    SELECT r.tenant_id, r.run_id
                    FROM runs AS r JOIN unnest($1::bytea[], $2::bytea[], $3::bigint[]) AS a (tenant_id, run_id, epoch)
                        ON a.tenant_id = r.tenant_id AND a.run_id = r.run_id
                    WHERE r.epoch = a.epoch ORDER BY r.tenant_id, r.run_id FOR NO KEY UPDATE OF r
                )
                UPDATE runs AS r SET owner = NULL, lease_until = NULL
                FROM locked AS l WHERE r.tenant_id = l.tenant_id AND r.run_id = l.run_id";
            execute(client, sql, &[&asked.tenants, &asked.runs, &asked.epochs]).await?;
            Ok(())
        })
    }
}
