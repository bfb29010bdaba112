//! What a run is bound to: fixed once, stored in `run_started`, read back by every later owner.

use portolan_agent::machine::Configured;
use portolan_core::{agent::RetryPolicy, limits::SpendLimits};
use serde::{Deserialize, Serialize};

/// Output tokens of one call when the agent does not say: a worst case has to exist.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u32 = 4_096;

/// Active time of a run on the server when the agent does not say: 10 minutes.
pub const DEFAULT_WALL_TIME_MS: u64 = 600_000;

/// The whole configuration of a durable run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// What the loop is bound to.
    #[serde(rename = "loop")]
    pub configured: Configured,
    /// The model, `provider/model`.
    pub model: String,
    /// Bounds in money and tokens.
    #[serde(default)]
    pub spend: SpendLimits,
    /// How model calls are tried again.
    #[serde(default)]
    pub retries: RetryPolicy,
}

impl Configuration {
    /// The cap on output tokens that is sent with every call.
    pub fn max_output_tokens(&self) -> u32 {
        self.configured
            .max_output_tokens
            .unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS)
    }
}
