//! Budgets are never passed, and what a run cost is what the provider charged for it (P21, P22, P23).

use super::{Judged, Violation};
use portolan_journal::RunStatus;
use std::collections::BTreeMap;

pub(super) fn check(judged: &Judged<'_>, found: &mut Vec<Violation>) {
    for (tenant, books) in &judged.inner.overshoots {
        found.push(Violation::new(
            "P22",
            format!("{tenant} passed its budget: {books:?}"),
        ));
    }
    if !judged.swarm.honours_keys {
        return;
    }
    let mut charged: BTreeMap<&str, u64> = BTreeMap::new();
    for sent in &judged.inner.sends {
        if let (Some(run), Some((_, amount))) = (sent.key.split(':').next(), sent.charged) {
            *charged.entry(run).or_default() += amount.0;
        }
    }
    for dossier in &judged.dossiers {
        let progress = &dossier.row.progress;
        // What nobody was told the bill of is an estimate, and says so.
        if progress.status != RunStatus::Succeeded || progress.cost_is_estimate {
            continue;
        }
        let paid = charged
            .get(dossier.row.at.run.to_string().as_str())
            .copied()
            .unwrap_or_default();
        if paid != progress.cost.0 {
            let detail = format!(
                "{} cost {}, the provider charged {paid}",
                dossier.row.at.run, progress.cost.0
            );
            found.push(Violation::new("P21", detail));
        }
    }
}
