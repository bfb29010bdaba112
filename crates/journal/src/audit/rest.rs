//! What a run holds beside its journal, and lets go of when it ends.

use super::{Dossier, Finding, FindingKind};
use portolan_core::money::NanoUsd;

pub(super) fn check(dossier: &Dossier, found: &mut Vec<Finding>) {
    let row = &dossier.row;
    if dossier.inbox != dossier.inbox_count {
        let detail = format!(
            "{} commands wait, {} are counted",
            dossier.inbox, dossier.inbox_count
        );
        found.push(Finding::new(FindingKind::InboxDiffers, row.at, detail));
    }
    if !row.progress.status.is_terminal() {
        return;
    }
    let held = [
        (row.reserved != NanoUsd::ZERO, "money"),
        (row.owner.is_some(), "an owner"),
        (row.lease_until.is_some(), "a lease"),
        (row.wake_at.is_some(), "a timer"),
        (row.cancel_requested_at.is_some(), "a cancel"),
        (dossier.inbox > 0, "commands"),
    ];
    let held: Vec<&str> = held
        .iter()
        .filter(|(holds, _)| *holds)
        .map(|(_, what)| *what)
        .collect();
    if !held.is_empty() {
        let detail = format!("the run has ended and holds {}", held.join(", "));
        found.push(Finding::new(FindingKind::NotLetGo, row.at, detail));
    }
}
