//! How a tail ends and what it refuses to show.

use crate::support::{SeamStore, TIMES, ready};
use portolan_core::{
    faults::{Plant, plant},
    ids::Seq,
};
use portolan_journal::{JournalError, JournalStore as _, TailItem};
use portolan_testkit::clock::VirtualClock;

#[test]
fn a_run_that_has_ended_is_told_in_full_and_then_ends_for_good() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    store.commit(run, "note", 10);
    store.commit(run, "run_succeeded", 10);
    for after in 0..3 {
        let mut reader = store.follow(&clock, run, after);
        for _ in 0..3 {
            assert!(matches!(reader.drain(), Some(TailItem::Ended)), "after {after}");
        }
        assert_eq!(reader.seen, (after + 1..=3).collect::<Vec<_>>());
    }
}

#[test]
fn the_status_alone_ends_nothing() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    let mut reader = store.follow(&clock, run, 0);
    assert!(reader.drain().is_none());
    // A hint that says the run has ended, from a replica that is ahead of what this one can read.
    store.hub().committed(run, Seq(3), true);
    assert!(reader.drain().is_none());
    store.commit(run, "note", 10);
    store.commit(run, "run_succeeded", 10);
    store.hint(run);
    assert!(matches!(reader.drain(), Some(TailItem::Ended)));
    assert_eq!(reader.seen, [1, 2, 3]);
}

#[test]
fn a_reader_that_has_the_last_event_already_is_told_the_end() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    store.commit(run, "run_succeeded", 10);
    for after in [2, 3, u64::MAX] {
        let mut reader = store.follow(&clock, run, after);
        // Nobody announced anything: the lookout sees it.
        let mut last = reader.drain();
        if last.is_none() {
            clock.advance_ms(TIMES.poll_ms);
            last = reader.drain();
        }
        assert!(matches!(last, Some(TailItem::Ended)), "after {after}: {last:?}");
        assert!(reader.seen.is_empty());
    }
}

#[test]
fn a_store_that_fails_asks_the_reader_to_come_again() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    let mut reader = store.follow(&clock, run, 0);
    let away = || JournalError::NotCommitted("away".to_owned());
    *store.forced.lock().expect("no panic") = vec![Err(away()), Err(away())];
    for _ in 0..2 {
        let item = reader.drain();
        assert!(
            matches!(&item, Some(TailItem::ComeAgain(error)) if *error == away()),
            "{item:?}"
        );
    }
    assert!(reader.drain().is_none());
    assert_eq!(reader.seen, [1]);
}

#[test]
fn a_gap_a_repetition_and_an_event_out_of_order_are_not_shown() {
    for (places, shown) in [
        (&[1, 3][..], &[1][..]),
        (&[2], &[]),
        (&[1, 1], &[1]),
        (&[1, 2, 4], &[1, 2]),
        (&[2, 1], &[]),
    ] {
        let (store, clock) = (SeamStore::new(), VirtualClock::new());
        let run = store.begin(1);
        (0..4).for_each(|_| store.commit(run, "note", 10));
        let events = ready(store.inner.read(run, Seq::ZERO, 10)).expect("memory works");
        let page = places
            .iter()
            .map(|place: &usize| events[place - 1].clone())
            .collect();
        store.forced.lock().expect("no panic").push(Ok(page));
        let mut reader = store.follow(&clock, run, 0);
        let item = reader.drain();
        assert!(
            matches!(item, Some(TailItem::ComeAgain(JournalError::Corrupt(_)))),
            "{places:?}: {item:?}"
        );
        assert_eq!(reader.seen, shown);
    }
}

#[test]
fn a_planted_silence_is_noticed() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    let told = || {
        let mut reader = store.follow(&clock, run, 0);
        assert!(reader.drain().is_none());
        clock.advance_ms(TIMES.heartbeat_ms);
        matches!(reader.drain(), Some(TailItem::HeartbeatDue))
    };
    assert!(told());
    let _planted = plant(Plant::SilenceUntold);
    assert!(!told());
}

#[test]
fn silence_is_told_when_it_is_due_and_events_put_it_off() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    let mut reader = store.follow(&clock, run, 0);
    assert!(reader.drain().is_none());
    clock.advance_ms(TIMES.heartbeat_ms - 1);
    assert!(reader.drain().is_none(), "not yet");
    clock.advance_ms(1);
    assert!(matches!(reader.drain(), Some(TailItem::HeartbeatDue)));
    assert!(reader.drain().is_none(), "once");
    clock.advance_ms(TIMES.heartbeat_ms - 1);
    store.commit(run, "note", 10);
    store.hint(run);
    assert!(reader.drain().is_none());
    assert_eq!(reader.seen, [1, 2]);
    clock.advance_ms(TIMES.heartbeat_ms - 1);
    assert!(reader.drain().is_none(), "an event broke the silence");
    clock.advance_ms(1);
    assert!(matches!(reader.drain(), Some(TailItem::HeartbeatDue)));
}

#[test]
fn a_reader_holds_one_page_of_bounded_weight() {
    const MIB: usize = 1024 * 1024;
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    for bytes in [10, 40_000, 40_000, MIB, MIB, 10, 10, MIB, 70_000, 10] {
        store.commit(run, "note", bytes);
    }
    (0..500).for_each(|_| store.commit(run, "note", 1_000));
    store.commit(run, "run_succeeded", 10);
    let mut reader = store.follow(&clock, run, 0);
    assert!(matches!(reader.drain(), Some(TailItem::Ended)));
    assert_eq!(reader.seen, (1..=512).collect::<Vec<_>>());
    for bytes in store.pages.lock().expect("no panic").iter() {
        assert!(
            *bytes <= 64 * 1024 || [MIB, 70_000].contains(bytes),
            "a page of {bytes} bytes"
        );
    }
}
