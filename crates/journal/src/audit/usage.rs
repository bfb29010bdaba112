//! Usage: once for each run that has ended, and the sum of its steps.

use super::{Dossier, Finding, FindingKind};
use crate::{fold::RunStatus, row::RunRow};
use portolan_core::{money::NanoUsd, usage::TokenUsage};

/// What is billed for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// The UTC day of its admission, in days since the Unix epoch.
    pub day: i64,
    /// How it ended.
    pub status: RunStatus,
    /// Answers of models.
    pub model_calls: u32,
    /// Invocations of tools.
    pub tool_calls: u32,
    /// Tokens of all calls.
    pub tokens: TokenUsage,
    /// What they cost; `None`: a price is unknown.
    pub cost: Option<NanoUsd>,
    /// Whether a part of it is an estimate.
    pub cost_is_estimate: bool,
    /// Whether the run was imported: it was billed where it ran.
    pub is_imported: bool,
}

impl UsageRow {
    /// What a run has to be billed for.
    pub fn of(row: &RunRow) -> Self {
        let progress = &row.progress;
        Self {
            day: row.created_at.day(),
            status: progress.status,
            model_calls: progress.usage.model_calls,
            tool_calls: progress.usage.tool_calls,
            tokens: progress.tokens,
            cost: (!progress.cost_unknown).then_some(progress.cost),
            cost_is_estimate: progress.cost_is_estimate,
            is_imported: false,
        }
    }
}

pub(super) fn check(dossier: &Dossier, found: &mut Vec<Finding>) {
    let row = &dossier.row;
    let wanted = usize::from(row.progress.status.is_terminal());
    let detail = |wanted: usize| format!("{} rows of usage where {wanted} belong", dossier.usage.len());
    if dossier.usage.len() < wanted {
        found.push(Finding::new(FindingKind::UsageMissing, row.at, detail(wanted)));
    }
    if dossier.usage.len() > wanted {
        found.push(Finding::new(FindingKind::UsageTooMuch, row.at, detail(wanted)));
    }
    if let Some(usage) = dossier.usage.first().filter(|_| wanted == 1) {
        let right = UsageRow {
            is_imported: usage.is_imported,
            ..UsageRow::of(row)
        };
        if *usage != right {
            let detail = format!("{usage:?} where {right:?} belongs");
            found.push(Finding::new(FindingKind::UsageDiffers, row.at, detail));
        }
    }
    if row.settled != row.progress.cost {
        let detail = format!(
            "{} nano-dollars are settled, the steps cost {}",
            row.settled.0, row.progress.cost.0
        );
        found.push(Finding::new(FindingKind::SettledDiffers, row.at, detail));
    }
}
