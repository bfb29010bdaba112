//! Commands: durable beside the run, until its owner turns them into events.

use super::{
    super::{
        fault::Fault,
        hint::News,
        lane::{Commit, Write},
        read,
    },
    execute, query,
};
use crate::code;
use deadpool_postgres::ClientWrapper;
use portolan_core::{Fut, time::Timestamp};
use portolan_journal::{Command, Commanded, RunRef};

/// A command to a run.
pub(in super::super) struct PutCommand {
    pub(in super::super) run: RunRef,
    pub(in super::super) command: Command,
    pub(in super::super) at: Timestamp,
}

impl Write for PutCommand {
    type Answer = Commanded;
    const COMMIT: Commit = Commit::Transaction;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<Commanded, Fault>> {
        Box::pin(async move {
            let (tenant, run) = read::key(&self.run);
            let sql =
                "SELECT status, next_inbox FROM runs WHERE tenant_id = $1 AND run_id = $2 FOR NO KEY UPDATE";
            let rows = query(client, sql, &[&tenant, &run]).await?;
            let Some(row) = rows.first() else {
                return Ok(Commanded::NotFound);
            };
            let (status, number): (i64, i64) = (read::get(row, 0)?, read::get(row, 1)?);
            if code::is_terminal(status) {
                return Ok(Commanded::AlreadyTerminal);
            }
            let waiting = read::inbox(client, self.run).await?;
            if waiting.iter().any(|entry| entry.command == self.command) {
                return Ok(Commanded::Accepted);
            }
            let command = serde_json::to_string(&self.command)
                .map_err(|error| Fault::Refused(format!("the command cannot be written: {error}")))?;
            let sql =
                "INSERT INTO inbox (tenant_id, run_id, inbox_id, at, command) VALUES ($1, $2, $3, $4, $5)";
            execute(client, sql, &[&tenant, &run, &number, &self.at.0, &command]).await?;
            let sql = "UPDATE runs SET next_inbox = next_inbox + 1, inbox_count = inbox_count + 1,
                    cancel_requested_at = least(coalesce(cancel_requested_at, $3), $3)
                WHERE tenant_id = $1 AND run_id = $2";
            execute(client, sql, &[&tenant, &run, &self.at.0]).await?;
            Ok(Commanded::Accepted)
        })
    }

    fn announce(&self, answer: &Commanded, news: &News) {
        match answer {
            Commanded::Accepted => news.commanded(self.run),
            Commanded::AlreadyTerminal | Commanded::NotFound => {}
        }
    }
}
