//! A run goes through its states in order, under owners whose generation only rises, and ends once (P2, P5, P17).

use super::{Judged, Violation};
use portolan_core::event::Event;
use portolan_core::failure::FailureKind;
use portolan_journal::RunStatus;

pub(super) fn check(judged: &Judged<'_>, found: &mut Vec<Violation>) {
    for (run, commits) in &judged.inner.commits {
        for (before, after) in commits.iter().zip(commits.iter().skip(1)) {
            if after.epoch < before.epoch {
                let detail = format!(
                    "{} went from epoch {:?} to {:?}",
                    run.run, before.epoch, after.epoch
                );
                found.push(Violation::new("P17", detail));
            }
            if after.last_seq < before.last_seq || before.status.is_terminal() {
                let detail = format!(
                    "{} changed after its end, or backwards: {before:?}, {after:?}",
                    run.run
                );
                found.push(Violation::new("P2", detail));
            }
            if !may_follow(before.status, after.status) {
                let detail = format!(
                    "{} went from {} to {}",
                    run.run,
                    before.status.name(),
                    after.status.name()
                );
                found.push(Violation::new("P5", detail));
            }
        }
    }
    for dossier in &judged.dossiers {
        let run = dossier.row.at;
        if dossier.row.progress.status == RunStatus::Cancelled && !judged.inner.cancelled.contains(&run) {
            found.push(Violation::new(
                "P51",
                format!("{} was cancelled by nobody", run.run),
            ));
        }
        let last = dossier.events.last().and_then(|event| event.event().ok());
        if let Some(Event::RunFailed(ended)) = last {
            let calm = judged.inner.counts.kills + judged.inner.counts.pauses + judged.inner.counts.crashes
                == 0
                && judged.inner.counts.store_faults == 0;
            if ended.error.kind == FailureKind::ReplayDiverged {
                let detail = format!("{} went another way: {}", run.run, ended.error.message);
                found.push(Violation::new("P11", detail));
            }
            if ended.error.kind == FailureKind::Quarantined && calm {
                let detail = format!(
                    "{} was quarantined without a reason: {}",
                    run.run, ended.error.message
                );
                found.push(Violation::new("P54", detail));
            }
        }
    }
}

fn may_follow(before: RunStatus, after: RunStatus) -> bool {
    match (before, after) {
        (RunStatus::Queued | RunStatus::Running | RunStatus::Waiting, RunStatus::Queued) => before == after,
        (RunStatus::Queued, RunStatus::Waiting) => false,
        (RunStatus::Queued | RunStatus::Running | RunStatus::Waiting, _) => true,
        (RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled, _) => false,
    }
}
