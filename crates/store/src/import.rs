//! What both databases write of a run that ended elsewhere.

use portolan_core::event::Recorded;
use portolan_journal::{Import, NewEvent, RunRow};

/// An import with its JSON columns.
pub(crate) struct PreparedImport {
    pub(crate) import: Import,
    pub(crate) tags: String,
    pub(crate) progress: String,
}

impl PreparedImport {
    pub(crate) fn new(import: Import) -> serde_json::Result<Self> {
        Ok(Self {
            tags: serde_json::to_string(&import.row().tags)?,
            progress: serde_json::to_string(&import.row().progress)?,
            import,
        })
    }

    pub(crate) const fn row(&self) -> &RunRow {
        self.import.row()
    }
}

/// A row of a journal as one that is to be written.
pub(crate) fn event(record: &Recorded) -> NewEvent {
    NewEvent {
        kind: record.kind.clone().into(),
        step: record.step,
        attempt: record.attempt,
        payload: record.payload.clone().into(),
    }
}
