//! Nothing leaves before its intent is durable, nothing is sent again once it is answered, a key always carries the same
//! request, and is charged once where the provider honours it (P7, P9, P10, P12).

use super::{Judged, Violation};
use portolan_core::{ids::IdempotencyKey, tool::ToolClass};
use std::collections::BTreeMap;

/// When a step was durable, by the key of its attempt, in simulated microseconds.
#[derive(Debug, Default)]
struct Durable {
    intended_us: Option<u64>,
    answered_us: Option<u64>,
}

pub(super) fn check(judged: &Judged<'_>, found: &mut Vec<Violation>) {
    let durable = durable(judged);
    let mut requests = BTreeMap::new();
    let mut charges: BTreeMap<&str, u64> = BTreeMap::new();
    for sent in &judged.inner.sends {
        moment(&durable, &sent.key, sent.at_us, "sent", found);
        if *requests.entry(sent.key.as_str()).or_insert(sent.request) != sent.request {
            found.push(Violation::new(
                "P9",
                format!("{} carried another request", sent.key),
            ));
        }
        *charges.entry(&sent.key).or_default() += u64::from(sent.charged.is_some());
    }
    if judged.swarm.honours_keys {
        for (key, count) in &charges {
            if *count > 1 {
                found.push(Violation::new("P9", format!("{key} was charged {count} times")));
            }
        }
    }
    let mut executions: BTreeMap<&str, u64> = BTreeMap::new();
    for executed in &judged.inner.executions {
        moment(&durable, &executed.key, executed.at_us, "executed", found);
        let count = executions.entry(&executed.key).or_default();
        *count += 1;
        if *count > 1 && executed.class == ToolClass::Once {
            found.push(Violation::new(
                "P12",
                format!("{} was executed {count} times", executed.key),
            ));
        }
    }
}

fn moment(
    durable: &BTreeMap<String, Durable>,
    key: &str,
    at_us: u64,
    what: &str,
    found: &mut Vec<Violation>,
) {
    let known = durable.get(key);
    match known.and_then(|known| known.intended_us) {
        Some(intended_us) if intended_us <= at_us => {}
        Some(intended_us) => {
            let detail = format!("{key} was {what} at {at_us}, and intended at {intended_us}");
            found.push(Violation::new("P10", detail));
        }
        None => found.push(Violation::new(
            "P10",
            format!("{key} was {what} and never intended"),
        )),
    }
    if let Some(answered_us) = known.and_then(|known| known.answered_us)
        && answered_us < at_us
    {
        let detail = format!("{key} was {what} at {at_us}, after its answer at {answered_us}");
        found.push(Violation::new("P7", detail));
    }
}

fn durable(judged: &Judged<'_>) -> BTreeMap<String, Durable> {
    let mut durable: BTreeMap<String, Durable> = BTreeMap::new();
    for dossier in &judged.dossiers {
        let run = dossier.row.at;
        let commits = judged
            .inner
            .commits
            .get(&run)
            .map(Vec::as_slice)
            .unwrap_or_default();
        for event in &dossier.events {
            let Some((step, attempt)) = event.step.zip(event.attempt) else {
                continue;
            };
            let at_us = commits
                .iter()
                .find(|commit| commit.last_seq >= event.seq)
                .map(|commit| commit.at_us);
            let entry = durable
                .entry(IdempotencyKey::new(run.run, step, attempt).to_string())
                .or_default();
            match event.kind.as_str() {
                "step_started" => entry.intended_us = entry.intended_us.or(at_us),
                "step_completed" | "step_failed" => entry.answered_us = at_us,
                _ => {}
            }
        }
    }
    durable
}
