//! Why a statement did not do what it was asked to, and what that says about the database.

use crate::code::Damage;
use portolan_core::key::AdminStoreError;
use portolan_journal::JournalError;
use tokio_postgres::error::{Error, Severity, SqlState};

/// A failure of one write or query.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// It failed before the statement was sent.
    #[error("{}", said(.0))]
    Before(Error),
    /// The statement failed, or its answer did not come.
    #[error("{}", said(.0))]
    Statement(#[from] Error),
    /// A row holds what this build never writes.
    #[error("{0}")]
    Corrupt(String),
    /// The request contradicts what is stored.
    #[error("{0}")]
    Refused(String),
    /// Somebody else was quicker: look again.
    #[error("another writer was quicker, again and again")]
    Again,
    /// It took too long.
    #[error("the database did not answer in time")]
    TooLong,
}

impl Fault {
    /// What a test pretends.
    pub(super) fn pretended() -> Self {
        Self::Refused("a test pretends that it failed".to_owned())
    }

    /// Whether the database said that it has done nothing, and the connection is as good as before.
    pub(super) fn is_definite(&self) -> bool {
        match self {
            Self::Before(_) | Self::Corrupt(_) | Self::Refused(_) | Self::Again => true,
            Self::Statement(error) => is_rolled_back(error),
            Self::TooLong => false,
        }
    }

    /// Whether the same once more may go better at once.
    pub(super) fn is_worth_a_repeat(&self) -> bool {
        match self {
            Self::Again => true,
            Self::Statement(error) => is_collision(error),
            Self::Before(_) | Self::Corrupt(_) | Self::Refused(_) | Self::TooLong => false,
        }
    }

    /// What a caller hears where nothing was written.
    pub(super) fn not_committed(self) -> JournalError {
        match self {
            Self::Corrupt(what) => JournalError::Corrupt(what),
            other => JournalError::NotCommitted(other.to_string()),
        }
    }
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Self {
        Self::Corrupt(damage.to_string())
    }
}

/// Whether an error says that the transaction was rolled back. An `ERROR` does: Postgres sends one only for a transaction that
/// it gives up, and after the commit record there is none left to send. A `FATAL` or a `PANIC` ends the backend at any
/// moment, and so does a connection that breaks: they say nothing.
pub(super) fn is_rolled_back(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        error.parsed_severity() == Some(Severity::Error)
            && *error.code() != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
    })
}

/// Whether two transactions were in each other's way.
pub(super) fn is_collision(error: &Error) -> bool {
    error.code().is_some_and(|code| {
        [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
        ]
        .contains(code)
    })
}

/// An error with what the database said about it.
pub(super) fn said(error: &Error) -> String {
    match error.as_db_error() {
        Some(database) => format!("{} ({})", database.message(), database.code().code()),
        None => {
            let source = std::error::Error::source(error).map(|source| format!(": {source}"));
            format!("{error}{}", source.unwrap_or_default())
        }
    }
}

/// The same for the ports of administrative objects, which tell their callers no difference.
pub(super) fn admin(error: &JournalError) -> AdminStoreError {
    AdminStoreError(error.to_string())
}
