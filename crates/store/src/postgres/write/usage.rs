//! The usage rows of runs, written by the statement that ends them.

use crate::code;
use portolan_journal::Progress;
use std::borrow::Cow;

/// The columns that come from the fold.
#[derive(Default)]
pub(super) struct Columns<'a> {
    /// Which request of the group ends a run.
    pub(super) request: Vec<i64>,
    pub(super) model: Vec<Option<Cow<'a, str>>>,
    pub(super) model_calls: Vec<i64>,
    pub(super) tool_calls: Vec<i64>,
    pub(super) tokens_in: Vec<i64>,
    pub(super) tokens_out: Vec<i64>,
    pub(super) tokens_cached: Vec<i64>,
    pub(super) tokens_reasoning: Vec<i64>,
    pub(super) cost: Vec<Option<i64>>,
    pub(super) cost_is_estimate: Vec<i64>,
}

impl<'a> Columns<'a> {
    /// Adds the fold of a run that ends.
    pub(super) fn add(&mut self, request: i64, progress: &'a Progress) {
        let tokens = &progress.tokens;
        self.request.push(request);
        // A zero byte is the one thing that text here cannot hold, and no reason to keep a run from its end.
        let model = progress.model.as_deref();
        self.model.push(model.map(|model| match model.contains('\0') {
            true => model.replace('\0', "\u{fffd}").into(),
            false => model.into(),
        }));
        self.model_calls.push(progress.usage.model_calls.into());
        self.tool_calls.push(progress.usage.tool_calls.into());
        self.tokens_in.push(code::from_count(tokens.tokens_in));
        self.tokens_out.push(code::from_count(tokens.tokens_out));
        self.tokens_cached.push(code::from_count(tokens.tokens_cached));
        self.tokens_reasoning
            .push(code::from_count(tokens.tokens_reasoning));
        self.cost
            .push((!progress.cost_unknown).then(|| code::from_money(progress.cost)));
        self.cost_is_estimate.push(i64::from(progress.cost_is_estimate));
    }
}
