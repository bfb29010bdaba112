//! How values stand in the database.
//!
//! An unsigned number beyond SQLite's own largest is held at that one: nine billion dollars, or three hundred million years.

use super::fault::Fault;
use portolan_core::{
    ids::{StepId, StepKind},
    money::NanoUsd,
};
use portolan_journal::RunStatus;
use rusqlite::{
    ToSql,
    types::{ToSqlOutput, Value, ValueRef},
};

/// The names that have a code, in the order of `event_kinds`: number one is the first. A kind that is missing here is kept
/// under its name, so a later build may add codes by a migration.
pub(super) const KIND_CODES: [&str; 17] = [
    "run_queued",
    "run_started",
    "run_recovered",
    "run_waiting",
    "run_resumed",
    "run_cancel_requested",
    "step_started",
    "step_completed",
    "step_failed",
    "step_ambiguous",
    "result_rejected",
    "artifact_created",
    "artifact_modified",
    "artifact_deleted",
    "run_succeeded",
    "run_failed",
    "run_cancelled",
];

/// The name of a kind, as it is bound.
pub(super) struct Kind<'a>(pub(super) &'a str);

impl ToSql for Kind<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let code = (1_i64..).zip(KIND_CODES).find(|(_, name)| *name == self.0);
        Ok(match code {
            Some((code, _)) => ToSqlOutput::Owned(Value::Integer(code)),
            None => ToSqlOutput::Borrowed(ValueRef::Text(self.0.as_bytes())),
        })
    }
}

/// Reads the name of a kind.
pub(super) fn kind(value: ValueRef<'_>) -> Result<String, Fault> {
    match value {
        ValueRef::Integer(code) => {
            let place = usize::try_from(code).ok().and_then(|code| code.checked_sub(1));
            let name = place.and_then(|place| KIND_CODES.get(place));
            name.map(|name| (*name).to_owned())
                .ok_or_else(|| Fault::corrupt(format_args!("an event has the kind {code}, which is none")))
        }
        ValueRef::Text(name) => std::str::from_utf8(name)
            .map(str::to_owned)
            .map_err(|_| Fault::corrupt("the name of a kind is no text")),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(Fault::corrupt("an event has a kind that is no name"))
        }
    }
}

/// A step as a number: twice its own, plus one for a tool.
pub(super) fn from_step(step: StepId) -> i64 {
    let tool = match step.kind {
        StepKind::Llm => 0,
        StepKind::Tool => 1,
    };
    i64::from(step.number) * 2 + tool
}

/// Reads a step.
pub(super) fn step(code: i64) -> Result<StepId, Fault> {
    let number = u32::try_from(code.div_euclid(2))
        .ok()
        .filter(|number| *number > 0);
    let number = number.ok_or_else(|| Fault::corrupt(format_args!("{code} is no step")))?;
    Ok(match code.rem_euclid(2) {
        0 => StepId::llm(number),
        _ => StepId::tool(number),
    })
}

/// A status as a number.
pub(super) const fn from_status(status: RunStatus) -> i64 {
    match status {
        RunStatus::Queued => 0,
        RunStatus::Running => 1,
        RunStatus::Waiting => 2,
        RunStatus::Succeeded => 3,
        RunStatus::Failed => 4,
        RunStatus::Cancelled => 5,
    }
}

/// Reads a status.
pub(super) fn status(code: i64) -> Result<RunStatus, Fault> {
    Ok(match code {
        0 => RunStatus::Queued,
        1 => RunStatus::Running,
        2 => RunStatus::Waiting,
        3 => RunStatus::Succeeded,
        4 => RunStatus::Failed,
        5 => RunStatus::Cancelled,
        _ => return Err(Fault::corrupt(format_args!("{code} is no status"))),
    })
}

/// Whether a status of that number is an end.
pub(super) const fn is_terminal(status: i64) -> bool {
    status >= from_status(RunStatus::Succeeded)
}

/// A count as it is bound.
pub(super) fn from_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A number of things in memory as it is bound.
pub(super) fn from_len(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// Reads a count.
pub(super) fn count(number: i64) -> Result<u64, Fault> {
    u64::try_from(number).map_err(|_| Fault::corrupt(format_args!("{number} is no count")))
}

/// Reads a count that is small.
pub(super) fn small(number: i64) -> Result<u32, Fault> {
    u32::try_from(number).map_err(|_| Fault::corrupt(format_args!("{number} is no small count")))
}

/// Money as it is bound.
pub(super) fn from_money(amount: NanoUsd) -> i64 {
    from_count(amount.0)
}

/// Reads money.
pub(super) fn money(number: i64) -> Result<NanoUsd, Fault> {
    count(number).map(NanoUsd)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;
    use portolan_core::event::KINDS;

    #[test]
    fn the_codes_are_those_of_the_schema_and_cover_every_kind() {
        let mut connection = rusqlite::Connection::open_in_memory().expect("opens");
        schema::migrate(&mut connection).expect("migrates");
        let mut statement = connection
            .prepare("SELECT name FROM event_kinds ORDER BY code")
            .expect("prepares");
        let names: Vec<String> = statement
            .query_map([], |row| row.get(0))
            .and_then(Iterator::collect)
            .expect("lists");
        assert_eq!(names, KIND_CODES);
        for kind in KINDS {
            assert!(KIND_CODES.contains(kind), "{kind} has no code");
        }
        for (expected, name) in (1..).zip(KIND_CODES) {
            assert_eq!(kind(ValueRef::Integer(expected)).expect("is one"), name);
        }
    }

    #[test]
    fn steps_round_trip_and_what_is_none_is_corrupt() {
        for id in [StepId::llm(1), StepId::tool(1), StepId::tool(u32::MAX)] {
            assert_eq!(step(from_step(id)).expect("is one"), id);
        }
        for code in [0, 1, -2, i64::MAX] {
            assert!(step(code).is_err(), "{code} is a step");
        }
    }
}
