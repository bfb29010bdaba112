//! The model of an embedded run: it counts what the calls cost, keeps them within the run's bounds, and tells the person at
//! the terminal what happens.

use crate::{
    render::fit,
    screen::{Screen, Style},
};
use portolan_core::{
    Fut,
    call::{Action, Arguments, Observation},
    ids::IdempotencyKey,
    limits::{LimitKind, SpendLimits},
    model::{Model, ModelError, ModelFailure, ModelReply, ModelRequest},
    money::NanoUsd,
    price::Price,
    usage::TokenUsage,
};
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room for what a provider's protocol adds to a request.
const OVERHEAD_BYTES: u64 = 4_096;

/// What the calls came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bill {
    pub(super) tokens: TokenUsage,
    /// `None` as soon as the price of a call is not known.
    pub(super) cost: Option<NanoUsd>,
    /// The bound that refused a call.
    pub(super) refused: Option<LimitKind>,
    calls: u32,
    told: usize,
}

/// A model with a meter.
pub(super) struct Metered {
    model: Arc<dyn Model>,
    price: Option<Price>,
    spend: SpendLimits,
    /// Where to tell; `None` is silent.
    screen: Option<Screen>,
    bill: Mutex<Bill>,
}

impl Metered {
    pub(super) fn new(
        model: Arc<dyn Model>,
        price: Option<Price>,
        spend: SpendLimits,
        screen: Option<Screen>,
    ) -> Self {
        let bill = Bill {
            cost: price.map(|_| NanoUsd::ZERO),
            ..Bill::default()
        };
        Self {
            model,
            price,
            spend,
            screen,
            bill: Mutex::new(bill),
        }
    }

    /// What it came to so far.
    pub(super) fn bill(&self) -> Bill {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Bill> {
        self.bill.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a call whose worst case passes a bound of the run.
    fn judge(&self, request: &ModelRequest<'_>) -> Result<(), ModelError> {
        let (max_cost, max_tokens) = (self.spend.max_cost_usd, self.spend.max_tokens);
        if max_cost.is_none() && max_tokens.is_none() {
            return Ok(());
        }
        let input = input_bytes(request);
        let output = request.max_output_tokens.unwrap_or_default();
        let mut bill = self.lock();
        let tokens = bill
            .tokens
            .total()
            .saturating_add(input)
            .saturating_add(u64::from(output));
        let worst = self.price.and_then(|price| price.worst_case(input, output));
        let cost = worst
            .zip(bill.cost)
            .and_then(|(worst, spent)| spent.checked_add(worst));
        let (limit, most) = match (max_tokens, max_cost) {
            (Some(most), _) if tokens > most => (LimitKind::MaxTokens, format!("{most} tokens")),
            (_, Some(most)) if cost.is_none_or(|cost| cost > most) => {
                (LimitKind::MaxCostUsd, format!("{most} USD"))
            }
            _ => return Ok(()),
        };
        bill.refused = Some(limit);
        let message = format!("the next model call could pass the limit of {most}");
        Err(ModelError::new(ModelFailure::Refused, message))
    }

    fn note(&self, reply: &ModelReply) {
        let mut bill = self.lock();
        let Some(usage) = &reply.usage else {
            bill.cost = None;
            return;
        };
        bill.tokens.add(usage);
        let cost = self.price.and_then(|price| price.cost(usage));
        bill.cost = bill.cost.zip(cost).and_then(|(sum, cost)| sum.checked_add(cost));
    }

    /// Tells what came of the calls that were answered since, and that a call begins.
    fn tell_before(&self, request: &ModelRequest<'_>) {
        let Some(screen) = &self.screen else { return };
        let mut bill = self.lock();
        bill.calls += 1;
        for exchange in request.exchanges().skip(bill.told) {
            bill.told += 1;
            let (style, text) = match &exchange.observation {
                Observation::Output(value) => (Style::Dim, value.to_string()),
                Observation::Error(error) => (Style::Bad, error.clone()),
            };
            let text = fit(&text, screen.width().saturating_sub(12));
            screen.talk(&format!("         {}", screen.paint(style, &text)));
        }
    }

    fn tell_after(&self, reply: &ModelReply) {
        let Some(screen) = &self.screen else { return };
        let number = self.lock().calls;
        let line = format!("llm-{number}: {}", describe(&reply.action));
        screen.talk(&fit(&line, screen.width()));
    }
}

impl Model for Metered {
    fn call<'a>(
        &'a self,
        key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            self.judge(&request)?;
            self.tell_before(&request);
            let reply = self.model.call(key, request).await?;
            self.note(&reply);
            self.tell_after(&reply);
            Ok(reply)
        })
    }

    fn honours_idempotency_keys(&self) -> bool {
        self.model.honours_idempotency_keys()
    }
}

/// An upper bound of the bytes of a request, and so of its tokens. What is JSON within JSON strings may double.
fn input_bytes(request: &ModelRequest<'_>) -> u64 {
    let length = |value: &dyn erased::Length| value.length();
    let parts: [&dyn erased::Length; 6] = [
        &request.task,
        request.context,
        &request.instructions,
        &request.tools,
        request.result_schema,
        &request.history,
    ];
    2 * parts.into_iter().map(length).sum::<u64>() + OVERHEAD_BYTES
}

/// Serialisable things behind one pointer.
mod erased {
    use super::Serialize;

    pub(super) trait Length {
        fn length(&self) -> u64;
    }

    impl<T: Serialize + ?Sized> Length for T {
        fn length(&self) -> u64 {
            // The vocabulary always serialises; should it not, the call must not look cheap.
            serde_json::to_vec(self).map_or(u64::MAX / 64, |bytes| bytes.len() as u64)
        }
    }
}

fn describe(action: &Action) -> String {
    let arguments = |arguments: &Arguments| match arguments {
        Arguments::Json(value) => value.to_string(),
        Arguments::Malformed { raw, .. } => raw.clone(),
    };
    match action {
        Action::Call(call) => format!("{} {}", call.name, arguments(&call.arguments)),
        Action::Batch(calls) => {
            let calls: Vec<String> = calls
                .iter()
                .map(|call| format!("{} {}", call.name, arguments(&call.arguments)))
                .collect();
            calls.join("; ")
        }
        Action::Final(result) => format!("the result {}", arguments(&result.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_agent::{agent, scripted};
    use serde_json::json;

    fn price() -> Price {
        serde_json::from_value(json!({"inputUsdPerMillion": "1", "outputUsdPerMillion": "1"}))
            .expect("a price")
    }

    async fn run(price: Option<Price>, spend: SpendLimits) -> (bool, Bill) {
        let model = scripted::ScriptedModel::new([scripted::result(json!("done"))]);
        let metered = Metered::new(Arc::new(model), price, spend, None);
        let schema = json!({"type": "string"});
        let ended = agent("x")
            .model(&metered)
            .max_output_tokens(100)
            .returns_schema(schema)
            .run_async()
            .await;
        (ended.is_ok(), metered.bill())
    }

    #[tokio::test]
    async fn bounds_in_money_and_tokens_refuse_the_call_before_it_is_made() {
        let bound = |max_cost_usd, max_tokens| SpendLimits {
            max_cost_usd,
            max_tokens,
            max_output_tokens: None,
        };
        let (went, bill) = run(
            Some(price()),
            bound(Some(NanoUsd(1_000_000_000)), Some(1_000_000)),
        )
        .await;
        assert!(went && bill.refused.is_none());
        let (went, bill) = run(Some(price()), bound(Some(NanoUsd(10)), None)).await;
        assert!(!went);
        assert_eq!(bill.refused, Some(LimitKind::MaxCostUsd));
        let (went, bill) = run(None, bound(Some(NanoUsd(u64::MAX)), None)).await;
        assert!(!went, "an unknown price is no price of zero");
        assert_eq!(bill.cost, None);
        let (went, bill) = run(None, bound(None, Some(50))).await;
        assert!(!went);
        assert_eq!(bill.refused, Some(LimitKind::MaxTokens));
    }
}
