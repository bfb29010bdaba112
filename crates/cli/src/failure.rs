//! Why a command failed: what happened, its causes, and what to do next.

use crate::exit::Exit;
use std::{error::Error, fmt};

/// A failure on its way to the edge, where it is printed once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    exit: Exit,
    /// What happened, then its causes, outermost first.
    chain: Vec<String>,
    hint: Option<String>,
    /// Printed nowhere: whoever read our output is gone.
    silent: bool,
}

impl Failure {
    fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            chain: vec![what.into()],
            hint: None,
            silent: false,
        }
    }

    /// The command line, a file or a request is wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// The store, the network, the server or the machine cannot be used.
    pub fn unavailable(what: impl Into<String>) -> Self {
        Self::new(Exit::Unavailable, what)
    }

    /// The finding is negative.
    pub fn negative(what: impl Into<String>) -> Self {
        Self::new(Exit::Negative, what)
    }

    /// Ctrl-C.
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self::new(Exit::Interrupted, what)
    }

    /// Whoever read the output has gone. That is no failure.
    pub(crate) fn nobody_reads() -> Self {
        Self {
            silent: true,
            ..Self::new(Exit::Ok, "nobody reads the output")
        }
    }

    /// Adds an error and all of its causes.
    #[must_use]
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let text = error.to_string();
            // Some foreign errors repeat their source.
            if self.chain.last().is_none_or(|last| !last.ends_with(&text)) {
                self.chain.push(text);
            }
            cause = error.source();
        }
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// How the process ends.
    pub const fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether there is nothing to print.
    pub(crate) const fn is_silent(&self) -> bool {
        self.silent
    }

    /// What happened and its causes, outermost first.
    pub(crate) fn chain(&self) -> &[String] {
        &self.chain
    }

    /// What to do next.
    pub(crate) fn next(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain.join(": "))
    }
}

/// Turns any error into a failure with words of this layer.
pub(crate) trait OrFail<T> {
    /// The world cannot be used.
    fn or_unavailable(self, what: impl FnOnce() -> String) -> Result<T, Failure>;

    /// What was given is wrong.
    fn or_usage(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Error + 'static> OrFail<T> for Result<T, E> {
    fn or_unavailable(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::unavailable(what()).because(&error))
    }

    fn or_usage(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::usage(what()).because(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_follow_once_each() {
        let error = Outer(std::io::Error::other("inner"));
        let failure = Failure::unavailable("what we did")
            .because(&error)
            .hint("do this");
        assert_eq!(failure.chain(), ["what we did", "outer", "inner"]);
        assert_eq!(failure.next(), Some("do this"));
        assert_eq!(failure.exit().code(), 4);
    }
}
