//! What a call can cost at the most, and whether the run's own bounds allow it.

use super::Drive;
use portolan_agent::machine::NeedModel;
use portolan_core::{
    call::{Exchange, Turn},
    failure::{FailureKind, RunFailure},
    limits::LimitKind,
    model::ModelRequest,
    money::NanoUsd,
    usage::TokenUsage,
};
use serde::Serialize;

/// Bytes that wrap one message of a conversation on the wire, at the most.
const MESSAGE_OVERHEAD_BYTES: u64 = 128;

/// Counts the bytes of a request as it grows, so that the bound of a call costs only what is new.
#[derive(Debug, Default)]
pub(super) struct InputBytes {
    fixed: Option<u64>,
    turns_counted: usize,
    turns: u64,
}

impl InputBytes {
    /// An upper bound of the bytes of a request. No token is shorter than a byte, so it bounds the tokens too.
    pub(super) fn of(&mut self, request: &ModelRequest<'_>) -> u64 {
        let fixed = *self.fixed.get_or_insert_with(|| {
            let parts = [
                json_bytes(&request.task),
                json_bytes(request.context),
                json_bytes(&request.instructions),
                json_bytes(&request.tools),
                json_bytes(request.result_schema),
            ];
            // The schema may travel twice: as the strict schema of the result tool and in its description.
            parts.iter().sum::<u64>() + json_bytes(request.result_schema) + 16 * MESSAGE_OVERHEAD_BYTES
        });
        for turn in request.history.get(self.turns_counted..).unwrap_or_default() {
            self.turns = self.turns.saturating_add(turn_bytes(turn));
        }
        self.turns_counted = request.history.len();
        fixed.saturating_add(self.turns)
    }
}

fn turn_bytes(turn: &Turn) -> u64 {
    let exchanges: u64 = turn.exchanges.iter().map(exchange_bytes).sum();
    exchanges + json_bytes(&turn.text) + json_bytes(&turn.echo) + MESSAGE_OVERHEAD_BYTES
}

fn exchange_bytes(exchange: &Exchange) -> u64 {
    // Arguments and outputs travel as JSON inside of JSON strings, which at worst doubles them.
    2 * (json_bytes(&exchange.call) + json_bytes(&exchange.observation)) + 2 * MESSAGE_OVERHEAD_BYTES
}

fn json_bytes(value: &impl Serialize) -> u64 {
    struct Counter(u64);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // The vocabulary always serialises; should it not, the call must not look cheap.
        Err(_) => u64::MAX / 1_024,
    }
}

impl Drive<'_> {
    /// The most that the next call can cost, or why the run's own bounds refuse it. No price: nothing to reserve.
    pub(super) fn worst_case(&mut self, need: &NeedModel) -> Result<NanoUsd, RunFailure> {
        let spend = self.configuration.spend;
        if self.price.is_none() && spend.max_tokens.is_none() && spend.max_cost_usd.is_none() {
            return Ok(NanoUsd::ZERO);
        }
        let input = self.input.of(&need.request());
        let output = self.configuration.max_output_tokens();
        let progress = self.writer.progress();
        if let Some(max_tokens) = spend.max_tokens {
            let worst = progress
                .tokens
                .total()
                .saturating_add(input)
                .saturating_add(u64::from(output));
            if worst > max_tokens {
                let message = format!("the next model call could pass the limit of {max_tokens} tokens");
                return Err(refusal(LimitKind::MaxTokens, message));
            }
        }
        let Some(price) = &self.price else {
            return match spend.max_cost_usd {
                // Admission refuses this; a price that vanished meanwhile must not become a free call.
                Some(_) => {
                    let message = format!("the price of {} is not known", self.configuration.model);
                    Err(refusal(LimitKind::MaxCostUsd, message))
                }
                None => Ok(NanoUsd::ZERO),
            };
        };
        let worst = price.worst_case(input, output).unwrap_or(NanoUsd(u64::MAX));
        if let Some(max_cost) = spend.max_cost_usd
            && progress.cost.saturating_add(worst) > max_cost
        {
            let message = format!("the next model call could pass the limit of {max_cost} USD");
            return Err(refusal(LimitKind::MaxCostUsd, message));
        }
        Ok(worst)
    }

    /// What a call cost: by the provider's own count, else what was reserved, marked as an estimate.
    pub(super) fn cost_of(&self, usage: Option<&TokenUsage>, reserved: NanoUsd) -> (Option<NanoUsd>, bool) {
        match (&self.price, usage) {
            (None, _) => (None, false),
            (Some(price), Some(usage)) => match price.cost(usage) {
                Some(cost) => (Some(cost), false),
                None => (Some(reserved), true),
            },
            (Some(_), None) => (Some(reserved), true),
        }
    }

    /// The cost of a call whose bill nobody knows.
    pub(super) fn estimate(&self, reserved: NanoUsd) -> (Option<NanoUsd>, bool) {
        self.cost_of(None, reserved)
    }
}

fn refusal(limit: LimitKind, message: String) -> RunFailure {
    RunFailure {
        limit: Some(limit),
        ..RunFailure::new(FailureKind::LimitExhausted, message)
    }
}
