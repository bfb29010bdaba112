//! How the machine judges a submitted result.

use serde_json::Value;
use std::fmt;

/// One way in which a value is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a JSON pointer; empty for the whole value.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// Judges submitted results. It must be a pure function of the value: a replay asks again and needs the same answer.
pub trait ResultCodec: Send + Sync {
    /// Names every violation, so that the model can correct all of them at once.
    fn check(&self, value: &Value) -> Result<(), Vec<Violation>>;
}

/// What the model is told about an invalid result.
pub(super) fn explain(violations: &[Violation]) -> String {
    let mut text = String::from("The result is not valid.");
    for violation in violations {
        text.push_str("\n- ");
        text.push_str(&violation.to_string());
    }
    text
}
