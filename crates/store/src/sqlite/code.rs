//! How the kinds of events stand in SQLite; the rest is the same in every database.

use super::fault::Fault;
pub(super) use crate::code::*;
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
}
