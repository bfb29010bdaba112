//! What bounds an execution.

use crate::money::NanoUsd;
use serde::{Deserialize, Serialize};

/// The bounds of the loop itself. They count new actions that may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Provider answers, at least 1. Default 30.
    pub model_calls: u32,
    /// Tool invocations. 0 is a model-only task. Default 100.
    pub tool_calls: u32,
    /// Corrected submissions after a first invalid result. Default 2, so three submissions.
    pub result_retries: u32,
    /// Active time in milliseconds, at least 1, checked at boundaries. Absent: no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_time_ms: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            model_calls: 30,
            tool_calls: 100,
            result_retries: 2,
            wall_time_ms: None,
        }
    }
}

impl Limits {
    /// Says what is wrong with these limits, if anything.
    pub const fn refusal(&self) -> Option<&'static str> {
        if self.model_calls == 0 {
            return Some("modelCalls must be at least 1");
        }
        if let Some(0) = self.wall_time_ms {
            return Some("wallTimeMs must be at least 1");
        }
        None
    }
}

/// The bounds of a durable run that cost money: checked before each model call with its worst case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SpendLimits {
    /// Dollars for the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<NanoUsd>,
    /// Tokens of all buckets for the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Output tokens of one call; always sent, so that a worst case exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

/// Which limit ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimitKind {
    /// Provider answers.
    ModelCalls,
    /// Tool invocations.
    ToolCalls,
    /// Corrected results.
    ResultRetries,
    /// Active time.
    WallTime,
    /// Dollars.
    MaxCostUsd,
    /// Tokens.
    MaxTokens,
}

impl LimitKind {
    /// The name in the loop's trace, in snake_case.
    pub const fn trace_name(self) -> &'static str {
        match self {
            Self::ModelCalls => "model_calls",
            Self::ToolCalls => "tool_calls",
            Self::ResultRetries => "result_retries",
            Self::WallTime => "wall_time",
            Self::MaxCostUsd => "max_cost_usd",
            Self::MaxTokens => "max_tokens",
        }
    }
}
