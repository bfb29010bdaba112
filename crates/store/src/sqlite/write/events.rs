//! Journal rows, several to a statement.

use super::super::{code, fault::Fault};
use portolan_core::time::Timestamp;
use portolan_journal::{NewEvent, RunRef};
use rusqlite::Connection;
use std::fmt::Write as _;

/// Rows of one statement. A step needs two; more rows are more statements.
const ROWS: usize = 4;

/// Adds events from a place on. That nobody else writes there is what the update of the run row has made sure of.
///
/// A statement that fails halfway leaves its first rows: the whole transaction is rolled back then, so SQLite need not
/// keep what it would take to undo one statement.
pub(super) fn insert<'a>(
    connection: &Connection,
    run: RunRef,
    mut seq: i64,
    events: impl ExactSizeIterator<Item = &'a NewEvent>,
    at: Timestamp,
) -> Result<(), Fault> {
    let mut left = events.len();
    let mut events = events;
    while left > 0 {
        let rows = left.min(ROWS);
        let mut statement = connection.prepare_cached(&sql(rows))?;
        statement.raw_bind_parameter(1, run.tenant.as_bytes())?;
        statement.raw_bind_parameter(2, run.run.as_bytes())?;
        statement.raw_bind_parameter(3, at.0)?;
        for (row, event) in events.by_ref().take(rows).enumerate() {
            let first = 4 + row * 5;
            statement.raw_bind_parameter(first, seq)?;
            statement.raw_bind_parameter(first + 1, code::Kind(&event.kind))?;
            statement.raw_bind_parameter(first + 2, event.step.map(code::from_step))?;
            statement.raw_bind_parameter(first + 3, event.attempt.map(|attempt| attempt.0))?;
            statement.raw_bind_parameter(first + 4, event.payload.as_ref())?;
            seq += 1;
        }
        statement.raw_execute()?;
        left -= rows;
    }
    Ok(())
}

fn sql(rows: usize) -> String {
    let mut sql = "INSERT OR FAIL INTO journal_events (tenant_id, run_id, at, seq, kind, step_id, attempt, payload) VALUES "
        .to_owned();
    for row in 0..rows {
        let first = 4 + row * 5;
        let comma = if row == 0 { "" } else { ", " };
        let (kind, step, attempt, payload) = (first + 1, first + 2, first + 3, first + 4);
        write!(
            sql,
            "{comma}(?1, ?2, ?3, ?{first}, ?{kind}, ?{step}, ?{attempt}, ?{payload})"
        )
        .expect("a string takes whatever is written to it");
    }
    sql
}
