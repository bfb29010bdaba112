//! Identifiers: one type each, so that two of them cannot be swapped.
//!
//! Public ids are a prefix and a UUIDv7 in simple hexadecimal form (`run_0190…`), which sorts by creation time and never
//! contains `:`. Parsing is strict: whatever does not print back to the same text is refused.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// An id that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an id of the form {prefix}_<32 hexadecimal digits>")]
pub struct IdError {
    /// The prefix that this kind of id has.
    pub prefix: &'static str,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// The prefix of the printed form, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Wraps a UUID that an entropy source made.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The sixteen bytes that a store keeps.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Reads back the sixteen bytes that a store kept.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.as_simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let refused = IdError { prefix: $prefix };
                let hex = text.strip_prefix(concat!($prefix, "_")).ok_or_else(|| refused.clone())?;
                let plain = hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
                if !plain {
                    return Err(refused);
                }
                Uuid::try_parse(hex).map(Self).map_err(|_| refused)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// A tenant: the owner of everything else.
    TenantId = "ten";
    /// A durable run.
    RunId = "run";
    /// An agent definition (all of its versions).
    AgentId = "agt";
    /// An API key.
    KeyId = "key";
    /// One execution of the bounded loop. A durable run has the same number as its execution.
    ExecutionId = "exe";
    /// A process that owns runs. It is drawn anew at each start.
    OwnerId = "own";
}

impl From<RunId> for ExecutionId {
    fn from(run: RunId) -> Self {
        Self::from_bytes(*run.as_bytes())
    }
}

/// What a step does: ask a model, or invoke a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A model request, `llm-n`.
    Llm,
    /// A tool invocation, `tool-n`.
    Tool,
}

/// A step of a run, numbered by the loop from 1 within its kind, so that every replay numbers it alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId {
    /// What the step does.
    pub kind: StepKind,
    /// Its number, from 1.
    pub number: u32,
}

impl StepId {
    /// The n-th model request.
    pub const fn llm(number: u32) -> Self {
        Self {
            kind: StepKind::Llm,
            number,
        }
    }

    /// The n-th tool invocation.
    pub const fn tool(number: u32) -> Self {
        Self {
            kind: StepKind::Tool,
            number,
        }
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            StepKind::Llm => write!(f, "llm-{}", self.number),
            StepKind::Tool => write!(f, "tool-{}", self.number),
        }
    }
}

impl fmt::Debug for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for StepId {
    type Err = StepIdError;

    fn from_str(text: &str) -> Result<Self, StepIdError> {
        let (kind, digits) = if let Some(rest) = text.strip_prefix("llm-") {
            (StepKind::Llm, rest)
        } else if let Some(rest) = text.strip_prefix("tool-") {
            (StepKind::Tool, rest)
        } else {
            return Err(StepIdError);
        };
        let number: u32 = digits.parse().map_err(|_| StepIdError)?;
        let step = Self { kind, number };
        if number == 0 || step.to_string() != text {
            return Err(StepIdError);
        }
        Ok(step)
    }
}

impl Serialize for StepId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A step id that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a step id of the form llm-<n> or tool-<n>, counted from 1")]
pub struct StepIdError;

/// The try of a step, from 1. It moves only with a committed retryable failure, never because of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The first try.
    pub const FIRST: Self = Self(1);

    /// The try after this one.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A place in a run's journal, dense from 1. Zero stands before the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first event.
    pub const ZERO: Self = Self(0);

    /// The place after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The generation of a run's owner: raised by every claim, checked by every append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// The key that a provider or a tool sees for one attempt of one step: `run_id:step_id:attempt`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Makes the key. There is no other constructor, so that no path can send another form.
    pub fn new(run: RunId, step: StepId, attempt: Attempt) -> Self {
        Self(format!("{run}:{step}:{}", attempt.0))
    }

    /// The key as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_and_parse_strictly() {
        let run = RunId::from_bytes([0xab; 16]);
        let text = run.to_string();
        assert_eq!(text, "run_abababababababababababababababab");
        assert_eq!(text.parse(), Ok(run));
        for bad in [
            "",
            "run_",
            "abababababababababababababababab",
            "key_abababababababababababababababab",
            "run_ABababababababababababababababab",
            "run_abababab-abab-abab-abab-abababababab",
            "run_abababababababababababababababab0",
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn step_ids_have_one_spelling() {
        assert_eq!("llm-3".parse(), Ok(StepId::llm(3)));
        assert_eq!(StepId::tool(12).to_string(), "tool-12");
        for bad in ["llm-0", "llm-03", "llm-+3", "tool-", "step-1", "llm-4294967296"] {
            assert!(bad.parse::<StepId>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn idempotency_keys_have_one_form() {
        let key = IdempotencyKey::new(RunId::from_bytes([1; 16]), StepId::llm(2), Attempt::FIRST);
        assert_eq!(key.as_str(), "run_01010101010101010101010101010101:llm-2:1");
    }
}
