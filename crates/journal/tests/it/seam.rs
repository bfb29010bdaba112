//! The seam between what is replayed and what is live: a commit and its hint at each moment of a reader that gets to the end.

use crate::support::{Moment, Reader, SeamStore, TIMES};
use portolan_journal::{RunRef, TailItem};
use portolan_testkit::clock::VirtualClock;
use std::sync::{Arc, Mutex};

/// What happens at which moment. Moments are counted as they pass.
#[derive(Debug, Default)]
struct Plan {
    commit_at: usize,
    /// None: it is lost.
    hint_at: Option<usize>,
    passed: usize,
    committed: bool,
    hinted: bool,
}

/// The kinds of the events that are committed in the seam.
#[derive(Debug, Clone, Copy)]
struct Commit(&'static [&'static str]);

fn pass(plan: &Mutex<Plan>, store: &SeamStore, run: RunRef, commit: Commit) {
    let mut plan = plan.lock().expect("no panic");
    let now = plan.passed;
    plan.passed += 1;
    if now == plan.commit_at {
        plan.committed = true;
        commit.0.iter().for_each(|kind| store.commit(run, kind, 10));
    }
    if plan.hint_at == Some(now) {
        plan.hinted = true;
        store.hint(run);
    }
}

/// Reads to the end with that plan; returns how many moments there were.
fn play(commit_at: usize, hint_at: Option<usize>, commit: Commit) -> usize {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    store.commit(run, "note", 10);
    let plan = Arc::new(Mutex::new(Plan {
        commit_at,
        hint_at,
        ..Plan::default()
    }));
    let (hooked, weak) = (Arc::clone(&plan), Arc::downgrade(&store));
    store.hook(move |_: Moment| pass(&hooked, &weak.upgrade().expect("it is called"), run, commit));

    pass(&plan, &store, run, commit);
    let mut reader = store.follow(&clock, run, 0);
    pass(&plan, &store, run, commit);
    let mut last = reader.drain();
    let moments = plan.lock().expect("no panic").passed;
    finish(&plan, &store, run, commit);
    if last.is_none() {
        last = reader.drain();
    }
    let wanted: Vec<u64> = (1..=2 + commit.0.len() as u64).collect();
    if hint_at.is_some() {
        assert_eq!(reader.seen, wanted, "with a hint nobody waits for the clock");
    } else {
        last = poll_for_it(&mut reader, &clock).or(last);
        assert_eq!(reader.seen, wanted, "without a hint the lookout finds it");
    }
    let ends = commit.0.contains(&"run_succeeded");
    assert_eq!(matches!(last, Some(TailItem::Ended)), ends, "{last:?}");
    moments
}

/// What did not happen while the reader was reading happens while it waits.
fn finish(plan: &Mutex<Plan>, store: &SeamStore, run: RunRef, commit: Commit) {
    let mut plan = plan.lock().expect("no panic");
    if !std::mem::replace(&mut plan.committed, true) {
        commit.0.iter().for_each(|kind| store.commit(run, kind, 10));
    }
    if !plan.hinted && plan.hint_at.is_some() {
        store.hint(run);
    }
    plan.commit_at = usize::MAX;
    plan.hint_at = None;
}

/// Lets the lookout's turn come.
fn poll_for_it(reader: &mut Reader, clock: &VirtualClock) -> Option<TailItem> {
    clock.advance_ms(TIMES.poll_ms);
    reader.drain()
}

#[test]
fn a_commit_at_any_moment_with_its_hint_at_any_later_one_is_seen_once() {
    for commit in [
        Commit(&["note"]),
        Commit(&["note", "note", "note"]),
        Commit(&["run_succeeded"]),
        Commit(&["note", "run_succeeded"]),
    ] {
        let moments = play(usize::MAX, None, commit);
        assert!(
            moments >= 6,
            "{moments} moments are few: the seam is not exercised"
        );
        for commit_at in 0..=moments + 2 {
            for hint_at in commit_at..=moments + 2 {
                play(commit_at, Some(hint_at), commit);
            }
            play(commit_at, None, commit);
        }
    }
}

#[test]
fn a_hint_that_lags_shows_nothing_twice_and_hides_nothing() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    let mut reader = store.follow(&clock, run, 0);
    assert!(reader.drain().is_none());
    // Three commits are read on the hint of the first; the hints of the others come when nothing is new.
    store.commit(run, "note", 10);
    store.hint(run);
    store.commit(run, "note", 10);
    store.commit(run, "note", 10);
    assert!(reader.drain().is_none());
    assert_eq!(reader.seen, [1, 2, 3, 4]);
    let pages = store.pages.lock().expect("no panic").len();
    store.hint(run);
    assert!(reader.drain().is_none());
    assert_eq!(reader.seen, [1, 2, 3, 4]);
    assert_eq!(
        store.pages.lock().expect("no panic").len(),
        pages,
        "what was read before it was announced is not read again"
    );
    store.commit(run, "run_succeeded", 10);
    store.hint(run);
    assert!(matches!(reader.drain(), Some(TailItem::Ended)));
    assert_eq!(reader.seen, [1, 2, 3, 4, 5]);
}

#[test]
fn a_reader_that_is_dropped_anywhere_goes_on_from_its_last_event() {
    const EVENTS: u64 = 200;
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    for _ in 0..EVENTS - 2 {
        store.commit(run, "note", 900);
    }
    store.commit(run, "run_succeeded", 10);
    for lives in 1..=EVENTS {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let mut reader = store.follow(&clock, run, after);
            for _ in 0..lives {
                if !matches!(reader.poll(), Some(TailItem::Event(_))) {
                    break;
                }
            }
            if reader.seen.is_empty() {
                break;
            }
            after = reader.tail.after().0;
            all.append(&mut reader.seen);
        }
        assert_eq!(
            all,
            (1..=EVENTS).collect::<Vec<_>>(),
            "{lives} events a connection"
        );
    }
}
