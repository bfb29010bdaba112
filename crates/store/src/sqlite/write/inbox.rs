//! Commands: durable beside the run, until its owner turns them into events.

use super::super::{
    batch::{Tx, Write},
    code,
    fault::Fault,
    read,
};
use portolan_core::time::Timestamp;
use portolan_journal::{Command, Commanded, Hub, RunRef};
use rusqlite::{OptionalExtension, params};

/// A command to a run.
pub(in super::super) struct PutCommand {
    pub(in super::super) run: RunRef,
    pub(in super::super) command: Command,
    pub(in super::super) at: Timestamp,
}

impl Write for PutCommand {
    type Answer = Commanded;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Commanded, Fault> {
        let (tenant, run) = (self.run.tenant.as_bytes(), self.run.run.as_bytes());
        let found: Option<(i64, i64)> = tx
            .connection
            .prepare_cached("SELECT status, next_inbox FROM runs WHERE tenant_id = ?1 AND run_id = ?2")?
            .query_row(params![tenant, run], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((status, number)) = found else {
            return Ok(Commanded::NotFound);
        };
        if code::is_terminal(status) {
            return Ok(Commanded::AlreadyTerminal);
        }
        let waiting = read::inbox(tx.connection, self.run)?;
        if waiting.iter().any(|entry| entry.command == self.command) {
            return Ok(Commanded::Accepted);
        }
        let command = serde_json::to_string(&self.command)
            .map_err(|error| Fault::Refused(format!("the command cannot be written: {error}")))?;
        tx.connection
            .prepare_cached(
                "INSERT INTO inbox (tenant_id, run_id, inbox_id, at, command) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![tenant, run, number, self.at.0, command])?;
        tx.connection
            .prepare_cached(
                "UPDATE runs SET next_inbox = next_inbox + 1, inbox_count = inbox_count + 1,
                     cancel_requested_at = min(coalesce(cancel_requested_at, ?3), ?3)
                 WHERE tenant_id = ?1 AND run_id = ?2",
            )?
            .execute(params![tenant, run, self.at.0])?;
        Ok(Commanded::Accepted)
    }

    fn announce(&self, answer: &Commanded, hub: &Hub) {
        match answer {
            Commanded::Accepted => hub.commanded(self.run),
            Commanded::AlreadyTerminal | Commanded::NotFound => {}
        }
    }
}
