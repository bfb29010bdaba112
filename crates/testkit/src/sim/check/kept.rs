//! What the store holds at the end is what its own audit wants (P7, P8, P10, P15, P16, P20, P21, P25).

use super::{Judged, Violation};

pub(super) fn check(judged: &Judged<'_>, found: &mut Vec<Violation>) {
    for dossier in &judged.dossiers {
        for finding in portolan_journal::audit::check(dossier) {
            found.push(Violation::new(finding.kind.promise(), finding.to_string()));
        }
    }
    for scope in &judged.scopes {
        if scope.books.reserved != scope.held_by_runs {
            let detail = format!(
                "a budget holds {:?}, its runs {:?}",
                scope.books, scope.held_by_runs
            );
            found.push(Violation::new("P25", detail));
        }
    }
}
