//! Leases: kept by those who live, ended by those who leave.

use super::super::{
    batch::{Tx, Write},
    code,
    fault::Fault,
};
use portolan_core::ids::Epoch;
use portolan_journal::{RenewRequest, Renewed, RunRef};
use rusqlite::{OptionalExtension, params};

/// A worker that is alive.
pub(in super::super) struct Renew(pub(in super::super) RenewRequest);

impl Write for Renew {
    type Answer = Renewed;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Renewed, Fault> {
        let claim = &self.0.claim;
        let mut renewed = Renewed::default();
        let mut statement = tx.connection.prepare_cached(
            "UPDATE runs SET lease_until = ?5, active_ms = max(active_ms, ?6)
             WHERE tenant_id = ?1 AND run_id = ?2 AND epoch = ?3 AND owner = ?4
             RETURNING inbox_count",
        )?;
        for (run, epoch, active_ms) in &self.0.runs {
            let commands: Option<i64> = statement
                .query_row(
                    params![
                        run.tenant.as_bytes(),
                        run.run.as_bytes(),
                        code::from_count(epoch.0),
                        claim.owner.as_bytes(),
                        claim.lease_until.0,
                        code::from_count(*active_ms)
                    ],
                    |row| row.get(0),
                )
                .optional()?;
            match commands {
                None => renewed.lost.push(*run),
                Some(0) => {}
                Some(_) => renewed.commanded.push(*run),
            }
        }
        Ok(renewed)
    }
}

/// Runs that their owner gives back.
pub(in super::super) struct GiveBack(pub(in super::super) Vec<(RunRef, Epoch)>);

impl Write for GiveBack {
    type Answer = ();

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let mut statement = tx.connection.prepare_cached(
            "UPDATE runs SET owner = NULL, lease_until = NULL WHERE tenant_id = ?1 AND run_id = ?2 AND epoch = ?3",
        )?;
        for (run, epoch) in &self.0 {
            statement.execute(params![
                run.tenant.as_bytes(),
                run.run.as_bytes(),
                code::from_count(epoch.0)
            ])?;
        }
        Ok(())
    }
}
