//! Small comparisons that the format asks for.

use serde_json::{Map, Value};

/// Whether `kind` is one of the alternatives `a|b`.
pub(super) fn kind_matches(expected: &str, kind: &str) -> bool {
    expected.split('|').any(|alternative| alternative == kind)
}

/// Whether the expected fields are all there with equal values.
pub(super) fn is_subset(expected: &Map<String, Value>, actual: &Value) -> bool {
    expected
        .iter()
        .all(|(name, value)| actual.get(name) == Some(value))
}

/// The trace kinds that the format knows; all others are left out of a comparison.
pub(super) const KINDS: [&str; 16] = [
    "execution.started",
    "execution.completed",
    "execution.cancelled",
    "execution.limit_exhausted",
    "model.requested",
    "model.failed",
    "tool.started",
    "tool.completed",
    "tool.denied",
    "tool.failed",
    "result.produced",
    "result.rejected",
    "artifact.created",
    "artifact.modified",
    "artifact.deleted",
    // Of this project: expected by its own deviations, dropped where the recorded format does not name it.
    "artifacts.unknown",
];
