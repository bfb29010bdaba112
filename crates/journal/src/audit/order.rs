//! The journal as a sequence: dense from one, begun and ended once.

use super::{Dossier, Finding, FindingKind};
use portolan_core::{event::is_terminal_kind, ids::Seq};

pub(super) fn check(dossier: &Dossier, found: &mut Vec<Finding>) {
    let run = dossier.row.at;
    let mut expected = Seq(1);
    for event in &dossier.events {
        if event.seq != expected {
            let detail = format!("{} stands where {} belongs", event.seq.0, expected.0);
            found.push(Finding::new(FindingKind::NotDense, run, detail).at(event.seq));
        }
        expected = event.seq.next();
    }
    let last = dossier.events.last().map_or(Seq::ZERO, |event| event.seq);
    if last != dossier.row.last_seq {
        let detail = format!(
            "the row counts {}, the journal ends at {}",
            dossier.row.last_seq.0, last.0
        );
        found.push(Finding::new(FindingKind::CounterDiffers, run, detail));
    }
    let first = dossier.events.first().map(|event| event.kind.as_str());
    if first != Some("run_queued") {
        let detail = format!("the journal begins with {}", first.unwrap_or("nothing"));
        found.push(Finding::new(FindingKind::WrongBeginning, run, detail));
    }
    let first_end = dossier
        .events
        .iter()
        .position(|event| is_terminal_kind(&event.kind));
    if let Some(after) = first_end.and_then(|place| dossier.events.get(place + 1)) {
        let detail = format!("{} follows the end of the run", after.kind);
        found.push(Finding::new(FindingKind::EndsTwice, run, detail).at(after.seq));
    }
}
