//! Appends: the next piece of a journal, the fold and the money, conditional on the owner's generation.

use super::{
    super::{
        batch::{Tx, Write},
        code,
        fault::Fault,
        read,
    },
    budget, events,
    usage::{self, Ended},
};
use crate::judge::{Decision, Ending, PreparedAppend};
use portolan_core::{
    agent::AgentName,
    faults::{self, Point},
    ids::Seq,
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{Append, Appended, Hub, InboxEntry, RunStatus};
use rusqlite::{Connection, OptionalExtension, params};

/// An append.
pub(in super::super) struct AppendEvents(PreparedAppend);

impl AppendEvents {
    pub(in super::super) fn new(append: Append) -> serde_json::Result<Self> {
        PreparedAppend::new(append).map(Self)
    }

    /// Whether nothing moves but the journal, the fold and the run's own money.
    fn is_plain(&self, tx: &Tx<'_>) -> bool {
        let append = &self.0.append;
        append.release.is_none()
            && append.consumed.is_empty()
            && !self.0.ending(true).progress.status.is_terminal()
            && tx.scopes.are_none(append.run.tenant)
    }

    /// The usual append, of a run that stays in its status: one statement for the row, one for the events. `None` if no
    /// row was changed, which says nothing yet: the status may be another one.
    fn apply_plain(&self, connection: &Connection) -> Result<Option<Appended>, Fault> {
        let (append, ending, settle) = (&self.0.append, self.0.ending(true), self.0.settle());
        let total = append.events.len() + ending.more.len();
        let updated: Option<(i64, i64)> = connection
            .prepare_cached(
                "UPDATE runs SET next_seq = next_seq + ?5, progress = ?6, active_ms = max(active_ms, ?7),
                     redrives = iif(?8, 0, redrives),
                     reserved = min(max(reserved - ?9, 0), 9223372036854775807 - ?10) + ?10,
                     settled = min(settled, 9223372036854775807 - ?11) + ?11
                 WHERE tenant_id = ?1 AND run_id = ?2 AND epoch = ?3 AND status = ?4 AND next_seq = coalesce(?12, next_seq)
                 RETURNING next_seq, inbox_count",
            )?
            .query_row(
                params![
                    append.run.tenant.as_bytes(),
                    append.run.run.as_bytes(),
                    code::from_count(append.epoch.0),
                    code::from_status(ending.progress.status),
                    code::from_len(total),
                    ending.json,
                    code::from_count(append.active_ms),
                    append.advances,
                    code::from_money(settle.reserved),
                    code::from_money(ending.topped_up),
                    code::from_money(settle.actual),
                    append.after.map(|after| code::from_count(after.next().0))
                ],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?;
        let Some((next_seq, commands)) = updated else {
            return Ok(None);
        };
        if faults::at_blocking(Point::AppendHalf).is_some() {
            return Err(Fault::pretended());
        }
        self.insert_events(connection, next_seq, &ending)?;
        let inbox = match commands {
            0 => Vec::new(),
            _ => read::inbox(connection, append.run)?,
        };
        Ok(Some(Appended::Committed {
            last_seq: seq_before(next_seq)?,
            inbox,
        }))
    }

    /// Any append.
    fn apply_full(&self, tx: &Tx<'_>) -> Result<Appended, Fault> {
        let append = &self.0.append;
        let Some(row) = Row::read(tx.connection, append)? else {
            return Ok(Appended::Fenced);
        };
        if append
            .after
            .is_some_and(|after| code::from_count(after.next().0) != row.next_seq)
        {
            return Ok(Appended::Elsewhere);
        }
        let books = tx.scopes.books_of(tx.connection, append.run.tenant, &row.agent)?;
        let decision = self.0.decide(row.reserved, row.settled, books);
        let inbox = match row.commands {
            0 => Vec::new(),
            _ => read::inbox(tx.connection, append.run)?,
        };
        let kept = self.0.remaining(inbox, decision.ended());

        let next_seq = self.update_run(tx.connection, &row, &decision, &kept)?;
        if faults::at_blocking(Point::AppendHalf).is_some() {
            return Err(Fault::pretended());
        }
        self.insert_events(tx.connection, next_seq, &decision.ending)?;
        self.clear_inbox(tx.connection, &row, &kept)?;
        budget::keep(tx.connection, append.run.tenant, &decision.books)?;
        if decision.ended() {
            let ended = Ended {
                run: append.run,
                agent: row.agent.as_str(),
                agent_version: row.agent_version,
                admitted_at: row.created_at,
                progress: decision.ending.progress,
            };
            usage::insert(tx.connection, &ended)?;
        }
        let last_seq = seq_before(next_seq)?;
        Ok(match decision.refused {
            Some(scope) => Appended::TopUpRefused {
                last_seq,
                inbox: kept,
                scope,
            },
            None => Appended::Committed {
                last_seq,
                inbox: kept,
            },
        })
    }

    fn update_run(
        &self,
        connection: &Connection,
        row: &Row,
        decision: &Decision<'_>,
        kept: &[InboxEntry],
    ) -> Result<i64, Fault> {
        let (append, ending) = (&self.0.append, &decision.ending);
        let status = ending.progress.status;
        let stays_waiting =
            row.status == code::from_status(RunStatus::Waiting) && status == RunStatus::Waiting;
        let wake_at = match append.release {
            Some(release) => release.wake_at.map(|at| at.0),
            None => row.wake_at.filter(|_| stays_waiting),
        };
        let next_seq: Option<i64> = connection
            .prepare_cached(
                "UPDATE runs SET next_seq = next_seq + ?5, status = ?6, progress = ?7, active_ms = max(active_ms, ?8),
                     redrives = iif(?9, 0, redrives), reserved = ?10, settled = ?11, owner = iif(?12, NULL, owner),
                     lease_until = iif(?12, NULL, lease_until), wake_at = ?13, inbox_count = ?14, cancel_requested_at = ?15
                 WHERE tenant_id = ?1 AND run_id = ?2 AND epoch = ?3 AND status = ?4
                 RETURNING next_seq",
            )?
            .query_row(
                params![
                    append.run.tenant.as_bytes(),
                    append.run.run.as_bytes(),
                    code::from_count(append.epoch.0),
                    row.status,
                    code::from_len(append.events.len() + ending.more.len()),
                    code::from_status(status),
                    ending.json,
                    code::from_count(append.active_ms),
                    append.advances,
                    code::from_money(decision.reserved),
                    code::from_money(decision.settled),
                    decision.ended() || append.release.is_some(),
                    wake_at,
                    code::from_len(kept.len()),
                    kept.iter().map(|entry| entry.at.0).min()
                ],
                |row| row.get(0),
            )
            .optional()?;
        next_seq.ok_or_else(|| Fault::corrupt("a run changed under the transaction that read it"))
    }

    fn insert_events(
        &self,
        connection: &Connection,
        next_seq: i64,
        ending: &Ending<'_>,
    ) -> Result<(), Fault> {
        let all = self.0.events(ending);
        let first = next_seq - code::from_len(all.len());
        events::insert(
            connection,
            self.0.append.run,
            first,
            all.into_iter(),
            self.0.append.at,
        )
    }

    fn clear_inbox(&self, connection: &Connection, row: &Row, kept: &[InboxEntry]) -> Result<(), Fault> {
        let run = self.0.append.run;
        if row.commands == 0 {
            return Ok(());
        }
        if kept.is_empty() {
            connection
                .prepare_cached("DELETE FROM inbox WHERE tenant_id = ?1 AND run_id = ?2")?
                .execute(params![run.tenant.as_bytes(), run.run.as_bytes()])?;
            return Ok(());
        }
        let mut delete = connection
            .prepare_cached("DELETE FROM inbox WHERE tenant_id = ?1 AND run_id = ?2 AND inbox_id = ?3")?;
        for id in &self.0.append.consumed {
            delete.execute(params![
                run.tenant.as_bytes(),
                run.run.as_bytes(),
                code::from_count(id.0)
            ])?;
        }
        Ok(())
    }
}

impl Write for AppendEvents {
    type Answer = Appended;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Appended, Fault> {
        if self.is_plain(tx)
            && let Some(appended) = self.apply_plain(tx.connection)?
        {
            return Ok(appended);
        }
        self.apply_full(tx)
    }

    fn announce(&self, answer: &Appended, hub: &Hub) {
        let (last_seq, granted) = match answer {
            Appended::Committed { last_seq, .. } => (*last_seq, true),
            Appended::TopUpRefused { last_seq, .. } => (*last_seq, false),
            Appended::Fenced | Appended::Elsewhere => return,
        };
        let ended = self.0.ending(granted).progress.status.is_terminal();
        // A hint that is lost costs readers a moment, and no event.
        if ended && faults::at_blocking(Point::EndUnannounced).is_some() {
            return;
        }
        hub.committed(self.0.append.run, last_seq, ended);
    }
}

/// What an append has to know about its run.
struct Row {
    agent: AgentName,
    agent_version: i64,
    created_at: Timestamp,
    status: i64,
    reserved: NanoUsd,
    settled: NanoUsd,
    wake_at: Option<i64>,
    commands: i64,
    next_seq: i64,
}

impl Row {
    /// The row, unless the writer is fenced.
    fn read(connection: &Connection, append: &Append) -> Result<Option<Self>, Fault> {
        let mut statement = connection.prepare_cached(
            "SELECT agent, agent_version, created_at, status, reserved, settled, wake_at, inbox_count, next_seq FROM runs
             WHERE tenant_id = ?1 AND run_id = ?2 AND epoch = ?3 AND status < 3",
        )?;
        let mut rows = statement.query(params![
            append.run.tenant.as_bytes(),
            append.run.run.as_bytes(),
            code::from_count(append.epoch.0)
        ])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        Ok(Some(Self {
            agent: read::agent_name(row.get_ref(0)?)?,
            agent_version: row.get(1)?,
            created_at: Timestamp(row.get(2)?),
            status: row.get(3)?,
            reserved: code::money(row.get(4)?)?,
            settled: code::money(row.get(5)?)?,
            wake_at: row.get(6)?,
            commands: row.get(7)?,
            next_seq: row.get(8)?,
        }))
    }
}

fn seq_before(next_seq: i64) -> Result<Seq, Fault> {
    Ok(Seq(code::count(next_seq - 1)?))
}
