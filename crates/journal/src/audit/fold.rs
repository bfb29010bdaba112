//! The row as the fold of its journal.

use super::{Dossier, Finding, FindingKind};
use crate::fold::Progress;
use portolan_core::event::is_terminal_kind;

pub(super) fn check(dossier: &Dossier, found: &mut Vec<Finding>) {
    let row = &dossier.row;
    let mut fold = Progress::default();
    let mut is_whole = true;
    for record in &dossier.events {
        let event = match record.event() {
            Ok(event) => event,
            Err(error) => {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                let detail = format!("{error}: {}", why.unwrap_or_default());
                found.push(Finding::new(FindingKind::Undecodable, row.at, detail).at(record.seq));
                is_whole = false;
                continue;
            }
        };
        if let Err(error) = fold.apply(&event, record.at, record.step) {
            found.push(Finding::new(FindingKind::Unfoldable, row.at, error.to_string()).at(record.seq));
            return;
        }
        if is_terminal_kind(&record.kind) {
            // What follows an end is another rule's finding.
            break;
        }
    }
    if is_whole && fold != row.progress {
        let detail = format!("the row has {:?}, the journal folds to {fold:?}", row.progress);
        found.push(Finding::new(FindingKind::FoldDiffers, row.at, detail));
    }
}
