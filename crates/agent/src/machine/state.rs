//! What the machine remembers, and the bookkeeping that its states share.

use super::{canon::Canon, codec::ResultCodec, configured::Configured};
use portolan_core::{
    call::{Exchange, Observation, ToolCall, Turn},
    digest::{Chain, Digest},
    model::ModelReply,
    time::Timestamp,
    trace::{TraceEvent, TraceKind},
    usage::LoopUsage,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// The memory of one execution. It moves from state to state in its box; nothing is copied.
pub(super) struct State {
    pub(super) configured: Arc<Configured>,
    pub(super) codec: Arc<dyn ResultCodec>,
    /// Places in `configured.tools` by name, so that a call costs the same with any number of tools.
    pub(super) tools: HashMap<String, usize>,
    pub(super) history: Vec<Turn>,
    /// The turn that is being answered.
    pub(super) turn: Turn,
    /// Calls of the turn that are still to be made.
    pub(super) queue: VecDeque<ToolCall>,
    /// Results that came with other calls, to be refused after those.
    pub(super) finals: VecDeque<ToolCall>,
    pub(super) trace: Vec<TraceEvent>,
    pub(super) usage: LoopUsage,
    /// Boundary checks so far.
    pub(super) checks: u64,
    /// The chained digest of everything that was configured, answered and observed.
    pub(super) digest: Digest,
    pub(super) canon: Canon,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("execution_id", &self.configured.execution_id)
            .field("usage", &self.usage)
            .field("checks", &self.checks)
            .field("turns", &self.history.len())
            .field("queued", &self.queue.len())
            .finish_non_exhaustive()
    }
}

impl State {
    pub(super) fn new(configured: Arc<Configured>, codec: Arc<dyn ResultCodec>) -> Self {
        let mut canon = Canon::default();
        let digest = configuration_digest(&mut canon, &configured);
        let tools = configured.tools.iter().enumerate();
        Self {
            tools: tools.map(|(place, tool)| (tool.name.clone(), place)).collect(),
            configured,
            codec,
            history: Vec::new(),
            turn: Turn::default(),
            queue: VecDeque::new(),
            finals: VecDeque::new(),
            trace: Vec::new(),
            usage: LoopUsage::default(),
            checks: 0,
            digest,
            canon,
        }
    }

    pub(super) fn record(&mut self, at: Timestamp, kind: TraceKind) {
        self.trace.push(TraceEvent { at, kind });
    }

    /// Takes note of an answer: its material enters the digest once, here.
    pub(super) fn begin_turn(&mut self, reply: &mut ModelReply) {
        self.usage.model_calls = self.usage.model_calls.saturating_add(1);
        self.canon.optional_text(reply.text.as_deref());
        match &reply.echo {
            None => self.canon.tag(b'-'),
            Some(echo) => self.canon.tag(b'+').value(echo),
        };
        self.digest = self.canon.action(&reply.action).after(&self.digest, "reply");
        self.turn = Turn {
            text: reply.text.take(),
            echo: reply.echo.take(),
            exchanges: Vec::new(),
        };
    }

    /// Takes note of what the model is told about a call.
    pub(super) fn answer(&mut self, call: ToolCall, observation: Observation) {
        self.canon.text(&call.id).observation(&observation);
        self.digest = self.canon.after(&self.digest, "observation");
        self.turn.exchanges.push(Exchange { call, observation });
    }

    /// Closes the turn.
    pub(super) fn end_turn(&mut self) {
        self.history.push(std::mem::take(&mut self.turn));
    }

    /// Records a refused result and tells the model why.
    pub(super) fn reject(&mut self, call: ToolCall, error: String, at: Timestamp) {
        self.usage.result_rejections = self.usage.result_rejections.saturating_add(1);
        let event = TraceKind::ResultRejected {
            call_id: call.id.clone(),
            error: error.clone(),
        };
        self.record(at, event);
        self.answer(call, Observation::Error(error));
    }

    /// Whether the submissions are used up.
    pub(super) fn retries_used_up(&self) -> bool {
        self.usage.result_rejections > self.configured.limits.result_retries
    }
}

/// The start of the chain: what a model may know before anything happened. The execution's id is left out, so that a
/// run and its fork agree for as long as they share a history.
fn configuration_digest(canon: &mut Canon, configured: &Configured) -> Digest {
    canon.text(&configured.task).value(&configured.context);
    canon.number(configured.instructions.len() as u64);
    for instruction in &configured.instructions {
        canon.text(instruction);
    }
    canon.number(configured.tools.len() as u64);
    for tool in &configured.tools {
        canon
            .text(&tool.name)
            .text(&tool.description)
            .value(&tool.input_schema);
    }
    canon.value(&configured.result_schema);
    match configured.max_output_tokens {
        None => canon.tag(b'-'),
        Some(tokens) => canon.tag(b'+').number(u64::from(tokens)),
    };
    canon.after(&Chain::new("portolan request").digest(), "configuration")
}
