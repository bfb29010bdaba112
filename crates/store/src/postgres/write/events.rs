//! Journal rows as arrays, several runs to a statement.

use crate::code;
use portolan_core::time::Timestamp;
use portolan_journal::NewEvent;

/// The columns of events that are written together.
#[derive(Default)]
pub(super) struct Columns<'a> {
    /// Which request of the group it belongs to.
    pub(super) request: Vec<i64>,
    /// Its place among the events of that request, from 0.
    pub(super) place: Vec<i64>,
    pub(super) kind: Vec<&'a [u8]>,
    pub(super) step_id: Vec<Option<i64>>,
    pub(super) attempt: Vec<Option<i64>>,
    pub(super) payload: Vec<&'a [u8]>,
    pub(super) at: Vec<i64>,
}

impl<'a> Columns<'a> {
    /// Adds the events of a request.
    pub(super) fn add(&mut self, request: i64, events: impl Iterator<Item = &'a NewEvent>, at: Timestamp) {
        for (place, event) in (0..).zip(events) {
            self.request.push(request);
            self.place.push(place);
            self.kind.push(event.kind.as_bytes());
            self.step_id.push(event.step.map(code::from_step));
            self.attempt.push(event.attempt.map(|attempt| attempt.0.into()));
            self.payload.push(&event.payload);
            self.at.push(at.0);
        }
    }
}
