//! The battery of the journal port: one list of checks that every store passes.
//!
//! Each check gets a store of its own, empty. All of them run, whatever fails, and the report names every violation.

mod admission;
mod appending;
mod claiming;
mod commands;
mod fixture;
mod importing;
mod money;
mod reading;

use portolan_journal::JournalStore;
use std::{future::Future, pin::Pin, sync::Arc};

/// A store under test.
type Store = Arc<dyn JournalStore>;

/// What a check found: nothing, or what is wrong.
type Verdict = Result<(), String>;

/// One check.
type Check = fn(Store) -> Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// Lists the checks of a module under the names of their functions.
macro_rules! checks {
    ($($check:ident,)*) => {
        pub(super) const CHECKS: &[(&str, super::Check)] = &[
            $((stringify!($check), |store| Box::pin($check(super::fixture::World::new(store)))),)*
        ];
    };
}
use checks;

/// Ends a check unless the two are equal.
macro_rules! same {
    ($found:expr, $wanted:expr, $($what:tt)+) => {
        match (&$found, &$wanted) {
            (found, wanted) => if found != wanted {
                return Err(format!("{}: found {found:?}, wanted {wanted:?}", format_args!($($what)+)));
            }
        }
    };
}
use same;

/// Runs every check against stores that `make` makes, each empty and of its own.
///
/// # Panics
///
/// If a check fails, with all the violations.
pub async fn check<M, F>(name: &str, make: M)
where
    M: Fn() -> F,
    F: Future<Output = Arc<dyn JournalStore>>,
{
    let modules = [
        admission::CHECKS,
        appending::CHECKS,
        money::CHECKS,
        claiming::CHECKS,
        commands::CHECKS,
        reading::CHECKS,
        importing::CHECKS,
    ];
    let mut violations = Vec::new();
    let mut ran = 0;
    for (check, run) in modules.into_iter().flatten() {
        let store = make().await;
        let verdict = tokio::spawn(run(store)).await;
        ran += 1;
        match verdict {
            Ok(Ok(())) => {}
            Ok(Err(violation)) => violations.push(format!("{check}: {violation}")),
            Err(panic) => violations.push(format!("{check}: {panic}")),
        }
    }
    assert!(ran > 0, "no check ran against {name}");
    assert!(
        violations.is_empty(),
        "{name} fails {} of {ran} checks:\n{}",
        violations.len(),
        violations.join("\n")
    );
}
