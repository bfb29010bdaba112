//! Why a statement did not do what it was asked to.

use crate::code::Damage;
use portolan_core::key::AdminStoreError;
use portolan_journal::JournalError;
use rusqlite::ErrorCode;

/// A failure of one write or query.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// A statement failed.
    #[error("a statement failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A row holds what this build never writes.
    #[error("{0}")]
    Corrupt(String),
    /// The request contradicts what is stored.
    #[error("{0}")]
    Refused(String),
}

impl Fault {
    /// What a test pretends.
    pub(super) fn pretended() -> Self {
        Self::Refused("a test pretends that it failed".to_owned())
    }

    /// Says what was found where something else belongs.
    pub(super) fn corrupt(what: impl std::fmt::Display) -> Self {
        Self::Corrupt(what.to_string())
    }
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Self {
        Self::Corrupt(damage.to_string())
    }
}

impl From<Fault> for JournalError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Sqlite(error) if is_damage(&error) => Self::Corrupt(error.to_string()),
            Fault::Sqlite(error) => Self::NotCommitted(error.to_string()),
            Fault::Corrupt(what) => Self::Corrupt(what),
            Fault::Refused(what) => Self::NotCommitted(what),
        }
    }
}

/// Whether the error is about what is stored, not about storing it.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => true,
        error => matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        ),
    }
}

/// The same for the ports of administrative objects, which tell their callers no difference.
pub(super) fn admin(error: &JournalError) -> AdminStoreError {
    AdminStoreError(error.to_string())
}
