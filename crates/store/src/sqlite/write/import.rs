//! A run that ended elsewhere: row, events and usage, or nothing.

use super::{
    super::{
        batch::{Tx, Write},
        code,
        fault::Fault,
    },
    events,
    usage::{self, Ended},
};
use crate::import::{PreparedImport, event};
use portolan_core::ids::Seq;
use portolan_journal::{Hub, Imported};
use rusqlite::params;

/// A run to be written as it is.
pub(in super::super) struct ImportRun(pub(in super::super) PreparedImport);

impl Write for ImportRun {
    type Answer = Imported;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Imported, Fault> {
        let row = self.0.row();
        let (tenant, run) = (row.at.tenant.as_bytes(), row.at.run.as_bytes());
        let inserted = tx
            .connection
            .prepare_cached(
                "INSERT INTO runs (tenant_id, run_id, agent, agent_version, tags, created_at, status, epoch, next_seq, active_ms,
                     settled, progress)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                 ON CONFLICT (tenant_id, run_id) DO NOTHING",
            )?
            .execute(params![
                tenant,
                run,
                row.agent.as_str(),
                row.agent_version,
                self.0.tags,
                row.created_at.0,
                code::from_status(row.progress.status),
                code::from_count(row.epoch.0),
                code::from_count(row.last_seq.next().0),
                code::from_count(row.active_ms),
                code::from_money(row.settled),
                self.0.progress
            ])?;
        if inserted == 0 {
            return Ok(Imported::Exists);
        }
        for record in self.0.import.events() {
            let seq = code::from_count(record.seq.0);
            let event = event(record);
            events::insert(tx.connection, row.at, seq, std::iter::once(&event), record.at)?;
        }
        let ended = Ended {
            run: row.at,
            agent: row.agent.as_str(),
            agent_version: row.agent_version.into(),
            admitted_at: row.created_at,
            progress: &row.progress,
        };
        usage::insert(tx.connection, &ended)?;
        tx.connection
            .prepare_cached("UPDATE usage SET imported = 1 WHERE tenant_id = ?1 AND run_id = ?2")?
            .execute(params![tenant, run])?;
        Ok(Imported::Done)
    }

    fn announce(&self, answer: &Imported, hub: &Hub) {
        let row = self.0.row();
        match answer {
            Imported::Done => hub.committed(row.at, Seq(row.last_seq.0), true),
            Imported::Exists => {}
        }
    }
}
