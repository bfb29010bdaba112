//! What was acknowledged exists, once for each key, and nothing exists that nobody asked for (P1, P4).

use super::{Judged, Violation};
use portolan_core::event::Event;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(judged: &Judged<'_>, found: &mut Vec<Violation>) {
    let mut by_key: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for dossier in &judged.dossiers {
        let run = dossier.row.at;
        let key = dossier.events.first().and_then(|first| match first.event() {
            Ok(Event::RunQueued(queued)) => queued.input["key"].as_str().map(str::to_owned),
            _ => None,
        });
        match key.map(|key| (run.tenant, key)) {
            Some(key) if judged.inner.begun.contains(&key) => {
                by_key.entry(key).or_default().insert(run.run);
            }
            other => found.push(Violation::new(
                "P4",
                format!("{} was asked for by nobody: {other:?}", run.run),
            )),
        }
    }
    for (key, runs) in &by_key {
        if runs.len() > 1 {
            found.push(Violation::new(
                "P4",
                format!("{} made {} runs", key.1, runs.len()),
            ));
        }
    }
    for (key, told) in &judged.inner.acknowledged {
        let exist = by_key.get(key).cloned().unwrap_or_default();
        if *told != exist {
            let detail = format!("{} was told {told:?}, there is {exist:?}", key.1);
            found.push(Violation::new("P1", detail));
        }
    }
}
