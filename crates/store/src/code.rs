//! How values stand in a database, the same in all of them.
//!
//! An unsigned number beyond the largest of sixty-four bits with a sign is held at that one: nine billion dollars, or three
//! hundred million years.

use portolan_core::{
    agent::AgentName,
    ids::{StepId, StepKind},
    money::NanoUsd,
};
use portolan_journal::RunStatus;
use serde::de::DeserializeOwned;

/// A value that no build of ours wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Damage(String);

impl Damage {
    /// Says what was found where something else belongs.
    pub(crate) fn new(what: impl std::fmt::Display) -> Self {
        Self(what.to_string())
    }
}

/// A step as a number: twice its own, plus one for a tool.
pub(crate) fn from_step(step: StepId) -> i64 {
    let tool = match step.kind {
        StepKind::Llm => 0,
        StepKind::Tool => 1,
    };
    i64::from(step.number) * 2 + tool
}

/// Reads a step.
pub(crate) fn step(code: i64) -> Result<StepId, Damage> {
    let number = u32::try_from(code.div_euclid(2))
        .ok()
        .filter(|number| *number > 0);
    let number = number.ok_or_else(|| Damage::new(format_args!("{code} is no step")))?;
    Ok(match code.rem_euclid(2) {
        0 => StepId::llm(number),
        _ => StepId::tool(number),
    })
}

/// A status as a number.
pub(crate) const fn from_status(status: RunStatus) -> i64 {
    match status {
        RunStatus::Queued => 0,
        RunStatus::Running => 1,
        RunStatus::Waiting => 2,
        RunStatus::Succeeded => 3,
        RunStatus::Failed => 4,
        RunStatus::Cancelled => 5,
    }
}

/// Reads a status.
pub(crate) fn status(code: i64) -> Result<RunStatus, Damage> {
    Ok(match code {
        0 => RunStatus::Queued,
        1 => RunStatus::Running,
        2 => RunStatus::Waiting,
        3 => RunStatus::Succeeded,
        4 => RunStatus::Failed,
        5 => RunStatus::Cancelled,
        _ => return Err(Damage::new(format_args!("{code} is no status"))),
    })
}

/// Whether a status of that number is an end.
pub(crate) const fn is_terminal(status: i64) -> bool {
    status >= from_status(RunStatus::Succeeded)
}

/// A count as it is bound.
pub(crate) fn from_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A number of things in memory as it is bound.
pub(crate) fn from_len(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// Reads a count.
pub(crate) fn count(number: i64) -> Result<u64, Damage> {
    u64::try_from(number).map_err(|_| Damage::new(format_args!("{number} is no count")))
}

/// Reads a count that is small.
pub(crate) fn small(number: i64) -> Result<u32, Damage> {
    u32::try_from(number).map_err(|_| Damage::new(format_args!("{number} is no small count")))
}

/// Money as it is bound.
pub(crate) fn from_money(amount: NanoUsd) -> i64 {
    from_count(amount.0)
}

/// Reads money.
pub(crate) fn money(number: i64) -> Result<NanoUsd, Damage> {
    count(number).map(NanoUsd)
}

/// Reads a text that is JSON.
pub(crate) fn json<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, Damage> {
    serde_json::from_str(text).map_err(|error| Damage::new(format_args!("{what} cannot be read: {error}")))
}

/// Reads the name of an agent.
pub(crate) fn agent_name(text: &str) -> Result<AgentName, Damage> {
    text.parse()
        .map_err(|_| Damage::new("a run has an agent without a proper name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_round_trip_and_what_is_none_is_corrupt() {
        for id in [StepId::llm(1), StepId::tool(1), StepId::tool(u32::MAX)] {
            assert_eq!(step(from_step(id)).expect("is one"), id);
        }
        for code in [0, 1, -2, i64::MAX] {
            assert!(step(code).is_err(), "{code} is a step");
        }
    }
}
