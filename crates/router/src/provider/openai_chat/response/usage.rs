//! Usage in disjoint buckets: OpenAI API reference, "The chat completion object", `usage`.

use portolan_core::usage::TokenUsage;
use serde_json::Value;

/// Reads `usage`. `prompt_tokens` includes `prompt_tokens_details.cached_tokens`, and `completion_tokens` includes
/// `completion_tokens_details.reasoning_tokens`; the buckets here do not overlap. An answer without both totals did not
/// say what it consumed, and nothing is assumed for it.
pub(super) fn read(usage: &Value) -> Option<TokenUsage> {
    let input = usage["prompt_tokens"].as_u64()?;
    let output = usage["completion_tokens"].as_u64()?;
    let part = |details: &str, field: &str| usage[details][field].as_u64().unwrap_or(0);
    // A part that is larger than its whole would count tokens that are in no total.
    let cached = part("prompt_tokens_details", "cached_tokens").min(input);
    let reasoning = part("completion_tokens_details", "reasoning_tokens").min(output);
    Some(TokenUsage {
        tokens_in: input.saturating_sub(cached),
        tokens_out: output.saturating_sub(reasoning),
        tokens_cached: cached,
        tokens_reasoning: reasoning,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const fn usage(tokens_in: u64, tokens_out: u64, tokens_cached: u64, tokens_reasoning: u64) -> TokenUsage {
        TokenUsage {
            tokens_in,
            tokens_out,
            tokens_cached,
            tokens_reasoning,
        }
    }

    #[test]
    fn buckets_are_disjoint_and_add_up_to_the_totals() {
        for (given, expected) in [
            (
                json!({"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}),
                usage(19, 10, 0, 0),
            ),
            (
                json!({
                    "prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
                    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
                    "completion_tokens_details": {"reasoning_tokens": 256, "accepted_prediction_tokens": 0},
                }),
                usage(86, 44, 1920, 256),
            ),
            (
                json!({
                    "prompt_tokens": 5, "completion_tokens": 5,
                    "prompt_tokens_details": {"cached_tokens": 9}, "completion_tokens_details": {"reasoning_tokens": 9},
                }),
                usage(0, 0, 5, 5),
            ),
            (
                json!({"prompt_tokens": 5, "completion_tokens": 0, "prompt_tokens_details": null}),
                usage(5, 0, 0, 0),
            ),
        ] {
            let read = read(&given).expect("usage");
            assert_eq!(read, expected);
            let totals = given["prompt_tokens"]
                .as_u64()
                .zip(given["completion_tokens"].as_u64());
            assert_eq!(totals.map(|(input, output)| input + output), Some(read.total()));
        }
    }

    #[test]
    fn what_was_not_said_is_not_assumed() {
        for given in [
            json!({}),
            json!(null),
            json!({"prompt_tokens": 5}),
            json!({"prompt_tokens": -1, "completion_tokens": 2}),
            json!({"prompt_tokens": "5", "completion_tokens": "2"}),
        ] {
            assert_eq!(read(&given), None, "{given}");
        }
    }
}
