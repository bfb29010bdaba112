//! The ledger of the scripted provider: every send that arrived, and whether it was charged.

use serde::{Deserialize, Serialize};

/// Price of the script: 0.40 and 1.60 US dollars for a million tokens, in billionths of a dollar for one.
pub(super) const NANO_USD_IN: u64 = 400;
pub(super) const NANO_USD_OUT: u64 = 1_600;

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Send {
    /// Its number, from 1.
    pub(super) send: usize,
    /// When it arrived.
    pub(super) at: String,
    /// Its `Idempotency-Key`.
    pub(super) key: Option<String>,
    /// Which model call of its conversation it is, from 1.
    pub(super) call: usize,
    /// The bytes of its body.
    pub(super) bytes: usize,
    /// BLAKE3 of its body.
    pub(super) digest: String,
    /// How it was answered.
    pub(super) answered: Answered,
    /// What was charged, in nano-dollars.
    pub(super) charged_nano_usd: u64,
}

/// How a send was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answered {
    /// With a fresh answer, which was charged.
    Charged,
    /// With the answer that its key already had, for nothing.
    FromKey,
    /// Not at all: its key belongs to other bytes.
    Refused,
}

/// A call whose reply is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// Its key.
    pub(super) key: String,
    /// Which model call it is.
    pub(super) call: usize,
}
