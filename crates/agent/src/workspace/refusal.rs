//! Errors of an access as what a model may be told.

use portolan_confine::{RelPath, root::AccessError};
use portolan_core::workspace::WorkspaceError;
use std::error::Error;

/// Parses a path as a model wrote it. A path that would leave the root is denied, a malformed one fails.
pub(super) fn parse(path: &str) -> Result<RelPath, WorkspaceError> {
    RelPath::parse(path).map_err(|error| {
        let text = error.to_string();
        if error.is_escape() {
            WorkspaceError::Denied(text)
        } else {
            WorkspaceError::Failed(text)
        }
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn access(error: AccessError) -> WorkspaceError {
    if error.is_denied() {
        WorkspaceError::Denied(error.to_string())
    } else {
        failed(&error)
    }
}

/// An error with its causes. The port carries one text, so this is the edge at which the chain becomes one.
pub(super) fn failed(error: &dyn Error) -> WorkspaceError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    WorkspaceError::Failed(text)
}
