//! The simulated provider: a plan for every run, a ledger of every send, and every way to fail.

use super::{
    executor::{Executor, WORLD},
    history::{History, Sent},
    time::Time,
};
use crate::random::Random;
use portolan_core::{
    Fut,
    call::{Action, Arguments, FinalResult, ToolCall},
    digest::Digest,
    ids::IdempotencyKey,
    model::{Model, ModelError, ModelFailure, ModelReply, ModelRequest},
    money::NanoUsd,
    price::{Price, Prices},
    usage::TokenUsage,
};
use portolan_engine::{ModelSource, UnknownModel};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::oneshot;

/// The name of the one model.
pub(super) const MODEL: &str = "sim/model";

/// Tokens of every call.
pub(super) const TOKENS: TokenUsage = TokenUsage {
    tokens_in: 100,
    tokens_out: 20,
    tokens_cached: 0,
    tokens_reasoning: 0,
};

/// What goes wrong, of a thousand calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) cut_permille: u64,
    pub(super) hung_permille: u64,
    pub(super) failed_permille: u64,
    pub(super) unsent_permille: u64,
    pub(super) nonsense_permille: u64,
}

/// The provider.
#[derive(Debug)]
pub(super) struct Provider {
    executor: Executor,
    time: Time,
    random: Random,
    history: History,
    faults: Faults,
    honours_keys: bool,
    is_healthy: AtomicBool,
    /// Answers by key, given again if the provider honours keys.
    answers: Mutex<BTreeMap<String, ModelReply>>,
}

impl Provider {
    pub(super) fn new(
        (executor, time, random): (Executor, Time, Random),
        history: History,
        faults: Faults,
        honours_keys: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            executor,
            time,
            random,
            history,
            faults,
            honours_keys,
            is_healthy: AtomicBool::new(false),
            answers: Mutex::default(),
        })
    }

    /// No more faults from now on. Nonsense is no fault: models write it on good days, too.
    pub(super) fn heal(&self) {
        self.is_healthy.store(true, Ordering::Relaxed);
    }

    fn happens(&self, permille: u64) -> bool {
        let happens = !self.is_healthy.load(Ordering::Relaxed) && self.random.permille(permille);
        if happens {
            self.history.count(|counts| counts.provider_faults += 1);
        }
        happens
    }

    /// What the model says: the same for the same request, whoever asks and how often.
    fn answer(&self, key: &str, request: &ModelRequest<'_>) -> ModelReply {
        let run = key.split(':').next().unwrap_or_default();
        let seed = Digest::of(run.as_bytes()).0;
        let turns = request.history.len() as u64;
        let draw = |salt: u64| {
            let place = usize::try_from((turns * 7 + salt * 11) % 32).unwrap_or_default();
            u64::from(seed.get(place).copied().unwrap_or_default()) * 256
                + u64::from(seed.get((place + 5) % 32).copied().unwrap_or_default())
        };
        let length = u64::from(seed.first().copied().unwrap_or_default()) % 6;
        let nonsense = draw(1) % 1_000 < self.faults.nonsense_permille;
        let action = match (turns >= length, nonsense) {
            (true, false) => done(json!(format!("after {turns}"))),
            // A result that is no text.
            (true, true) => done(json!(turns)),
            (false, true) if draw(2) % 3 == 0 => Action::Call(call("nobody", "c0")),
            (false, true) if draw(2) % 3 == 1 => Action::Call(ToolCall {
                arguments: Arguments::Malformed {
                    raw: "{\"n\":".to_owned(),
                    reason: "it ends early".to_owned(),
                },
                ..call("pure", "c0")
            }),
            (false, _) => match draw(3) % 5 {
                0 => Action::Batch(vec![
                    call("pure", "c0"),
                    call("once", "c1"),
                    call("idempotent", "c2"),
                ]),
                1 => Action::Call(call("idempotent", "c0")),
                2 | 3 => Action::Call(call("once", "c0")),
                _ => Action::Call(call("pure", "c0")),
            },
        };
        ModelReply {
            usage: Some(TOKENS),
            ..ModelReply::new(action)
        }
    }

    /// The far side: executes the request, and charges for it, whether or not anybody waits.
    fn receive(
        self: &Arc<Self>,
        send: usize,
        key: String,
        reply: ModelReply,
        answer: oneshot::Sender<ModelReply>,
    ) {
        let provider = Arc::clone(self);
        let travel = self.random.within(1..20);
        let thinking = self.random.within(5..400);
        let receive = async move {
            provider.time.sleep_ms(travel).await;
            let known = {
                let answers = provider.answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.get(&key).cloned().filter(|_| provider.honours_keys)
            };
            let reply = match known {
                Some(known) => known,
                None => {
                    provider.charge(send, &key);
                    let mut answers = provider.answers.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.insert(key, reply.clone());
                    reply
                }
            };
            provider.time.sleep_ms(thinking).await;
            let _ = answer.send(reply);
        };
        self.executor.spawn(WORLD, Box::pin(receive));
    }

    fn charge(&self, send: usize, key: &str) {
        let at_us = self.time.now_us();
        self.history.note(format_args!("charge {key}"));
        if let Some(sent) = self.history.inner().sends.get_mut(send) {
            sent.charged = Some((at_us, price_of_a_call()));
        }
    }
}

fn call(name: &str, id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: Arguments::Json(json!({"n": 1})),
    }
}

fn done(value: Value) -> Action {
    Action::Final(FinalResult {
        id: None,
        value: Arguments::Json(value),
    })
}

fn failed(failure: ModelFailure, retry_after_ms: Option<u64>) -> ModelError {
    ModelError {
        retry_after_ms,
        ..ModelError::new(failure, "simulated")
    }
}

/// The provider as one process reaches it.
#[derive(Debug)]
pub(super) struct SimModel(pub(super) Arc<Provider>);

impl Model for SimModel {
    fn call<'a>(
        &'a self,
        key: Option<&'a IdempotencyKey>,
        request: ModelRequest<'a>,
    ) -> Fut<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let provider = &self.0;
            let key = key.map(ToString::to_string).unwrap_or_default();
            if provider.happens(provider.faults.unsent_permille) {
                provider.time.sleep_ms(1).await;
                return Err(failed(ModelFailure::NotSent, None));
            }
            let digest = Digest::of(format!("{:?}{:?}", request.task, request.history).as_bytes());
            provider.history.note(format_args!("send {key} {digest}"));
            let send = {
                let mut inner = provider.history.inner();
                inner.sends.push(Sent {
                    at_us: provider.time.now_us(),
                    key: key.clone(),
                    request: digest,
                    charged: None,
                });
                inner.sends.len() - 1
            };
            if provider.happens(provider.faults.failed_permille) {
                let latency = provider.random.within(1..300);
                provider.time.sleep_ms(latency).await;
                return Err(match provider.random.within(0..4) {
                    0 => failed(ModelFailure::RateLimited, Some(provider.random.within(1..20_000))),
                    1 => failed(ModelFailure::Malformed, None),
                    _ => failed(ModelFailure::Overloaded, None),
                });
            }
            let is_cut = provider.happens(provider.faults.cut_permille);
            let is_hung = !is_cut && provider.happens(provider.faults.hung_permille);
            let (answer, answered) = oneshot::channel();
            let reply = provider.answer(&key, &request);
            provider.receive(send, key, reply, answer);
            if is_cut {
                let latency = provider.random.within(1..500);
                provider.time.sleep_ms(latency).await;
                return Err(failed(ModelFailure::InDoubt, None));
            }
            if is_hung {
                return std::future::pending().await;
            }
            answered.await.map_err(|_| failed(ModelFailure::InDoubt, None))
        })
    }

    fn honours_idempotency_keys(&self) -> bool {
        self.0.honours_keys
    }
}

impl ModelSource for SimModel {
    fn model(&self, name: &str) -> Result<Arc<dyn Model>, UnknownModel> {
        match name {
            MODEL => Ok(Arc::new(Self(Arc::clone(&self.0)))),
            _ => Err(UnknownModel(format!("no model {name}"))),
        }
    }
}

/// One price for the one model.
#[derive(Debug)]
pub(super) struct SimPrices;

impl Prices for SimPrices {
    fn price(&self, model: &str) -> Option<Price> {
        (model == MODEL).then(price)
    }
}

const fn price() -> Price {
    Price {
        input_usd_per_million: NanoUsd(1_000_000_000),
        output_usd_per_million: NanoUsd(2_000_000_000),
        cached_input_usd_per_million: None,
        max_output_tokens: Some(20),
    }
}

/// What a call of [`TOKENS`] costs.
pub(super) fn price_of_a_call() -> NanoUsd {
    price().cost(&TOKENS).unwrap_or(NanoUsd::ZERO)
}
