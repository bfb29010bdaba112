//! Every reader saw the journal, each event once and in order, and its end (P28, P29, P30).

use super::{Judged, Violation};
use portolan_core::{digest::Digest, ids::Seq};
use std::collections::BTreeMap;

pub(super) fn check(judged: &Judged<'_>, found: &mut Vec<Violation>) {
    let journals: BTreeMap<_, _> = judged
        .dossiers
        .iter()
        .map(|dossier| (dossier.row.at, &dossier.events))
        .collect();
    for ((reader, run), seen) in &judged.inner.readers {
        let kept: Vec<(Seq, String, Digest)> = journals
            .get(run)
            .into_iter()
            .flat_map(|events| events.iter())
            .map(|event| (event.seq, event.kind.clone(), Digest::of(&event.payload)))
            .collect();
        let is_whole = seen.events == kept;
        if !is_whole && (seen.ended || !kept.starts_with(&seen.events)) {
            let short = |events: &[(Seq, String, Digest)]| {
                events
                    .iter()
                    .map(|(seq, kind, _)| format!("{} {kind}", seq.0))
                    .collect::<Vec<_>>()
            };
            let detail = format!(
                "reader {reader} of {} saw {:?} where there is {:?}",
                run.run,
                short(&seen.events),
                short(&kept)
            );
            found.push(Violation::new("P28", detail));
        }
        if !seen.ended {
            found.push(Violation::new(
                "P30",
                format!("reader {reader} of {} never came to the end", run.run),
            ));
        }
    }
}
