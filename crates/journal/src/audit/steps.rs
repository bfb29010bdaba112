//! Steps: intended before they are answered, answered once, attempted anew only after a failure that allows it.

use super::{Dossier, Finding, FindingKind};
use portolan_core::{
    event::{Event, Recorded},
    ids::{Attempt, StepId},
};
use std::collections::BTreeMap;

/// What the journal has said about a step so far.
#[derive(Debug, Default)]
struct Step {
    retryable_failures: u32,
    /// The attempt that was intended and not answered.
    open: Option<Attempt>,
    is_answered: bool,
}

pub(super) fn check(dossier: &Dossier, found: &mut Vec<Finding>) {
    let mut steps: BTreeMap<StepId, Step> = BTreeMap::new();
    for record in &dossier.events {
        let Some(id) = record.step else { continue };
        let mut note = |kind, detail| found.push(Finding::new(kind, dossier.row.at, detail).at(record.seq));
        let step = steps.entry(id).or_default();
        match record.event() {
            Ok(Event::StepStarted(_)) => started(id, step, record, &mut note),
            Ok(Event::StepCompleted(_)) => answered(id, step, record, &mut note),
            Ok(Event::StepFailed(failed)) => {
                answered(id, step, record, &mut note);
                if failed.retryable {
                    step.is_answered = false;
                    step.retryable_failures += 1;
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
}

fn started(id: StepId, step: &mut Step, record: &Recorded, note: &mut impl FnMut(FindingKind, String)) {
    let attempt = record.attempt.unwrap_or(Attempt::FIRST);
    let expected = Attempt(step.retryable_failures + 1);
    if step.is_answered {
        note(
            FindingKind::DispatchedAfterAnswer,
            format!("{id} was answered before"),
        );
    }
    if attempt != expected {
        let detail = format!("{id} has attempt {} where {} belongs", attempt.0, expected.0);
        note(FindingKind::WrongAttempt, detail);
    }
    step.open = Some(attempt);
}

fn answered(id: StepId, step: &mut Step, record: &Recorded, note: &mut impl FnMut(FindingKind, String)) {
    let attempt = record.attempt.unwrap_or(Attempt::FIRST);
    if step.open.take() != Some(attempt) {
        let detail = format!("attempt {} of {id} was answered and not intended", attempt.0);
        note(FindingKind::AnsweredUndispatched, detail);
    }
    step.is_answered = true;
}
