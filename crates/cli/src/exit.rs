//! How a command ends, for scripts.

use std::process::ExitCode;

/// The exit codes of `portolan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It did what it was asked to.
    Ok,
    /// It did, and the finding is negative: the run failed, a check failed.
    Negative,
    /// The command line, a file or a request is wrong.
    Usage,
    /// The run waits for a person or a timer.
    Waiting,
    /// The store, the network or the server cannot be used.
    Unavailable,
    /// A part of it was done.
    Partial,
    /// Ctrl-C.
    Interrupted,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Waiting => 3,
            Self::Unavailable => 4,
            Self::Partial => 5,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
