//! Calls of a store between two points where a test may step in.

use crate::store::JournalError;
use portolan_core::faults::{self, Fault, Point};

/// Makes a call of the store between two points. What a point is told to pretend is heard as the store would say it.
pub async fn between<T>(
    before: Point,
    after: Point,
    call: impl Future<Output = Result<T, JournalError>>,
) -> Result<T, JournalError> {
    let pretended = faults::at(before).await;
    if pretended.is_some_and(Fault::is_error) {
        return Err(not_committed());
    }
    let answer = call.await?;
    match pretended.or(faults::at(after).await) {
        Some(_) => Err(unknown()),
        None => Ok(answer),
    }
}

/// What a store says of a write that did not happen, where a test pretends so.
pub fn not_committed() -> JournalError {
    JournalError::NotCommitted("a test pretends that it failed".to_owned())
}

/// What a store says of a write of which nobody knows, where a test pretends so.
pub fn unknown() -> JournalError {
    JournalError::Unknown("a test pretends that nobody knows".to_owned())
}
