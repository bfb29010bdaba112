//! What a call and a run consumed.

use serde::{Deserialize, Serialize};

/// Tokens of one model call, in disjoint buckets: no token is counted twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TokenUsage {
    /// Input tokens that were not read from a cache.
    pub tokens_in: u64,
    /// Output tokens that are not reasoning.
    pub tokens_out: u64,
    /// Input tokens read from the provider's cache.
    pub tokens_cached: u64,
    /// Output tokens spent on reasoning.
    pub tokens_reasoning: u64,
}

impl TokenUsage {
    /// All tokens, held at the largest number.
    pub const fn total(&self) -> u64 {
        self.tokens_in
            .saturating_add(self.tokens_out)
            .saturating_add(self.tokens_cached)
            .saturating_add(self.tokens_reasoning)
    }

    /// Adds another call's tokens.
    pub const fn add(&mut self, other: &Self) {
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.tokens_cached = self.tokens_cached.saturating_add(other.tokens_cached);
        self.tokens_reasoning = self.tokens_reasoning.saturating_add(other.tokens_reasoning);
    }
}

/// What the loop counted in one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoopUsage {
    /// Provider answers that the loop could use, the final one too.
    pub model_calls: u32,
    /// Tool invocations that started, failed and denied ones too.
    pub tool_calls: u32,
    /// Submitted results that were refused.
    pub result_rejections: u32,
}
