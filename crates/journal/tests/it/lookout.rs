//! The one look at the store for all readers that wait.

use crate::support::{Moment, Reader, SeamStore, TIMES, until_it_sleeps};
use futures::{FutureExt as _, future::BoxFuture};
use portolan_core::{
    ids::{Seq, TenantId},
    time::Clock as _,
};
use portolan_journal::{JournalStore as _, RunRef, TailItem};
use portolan_testkit::clock::VirtualClock;
use std::sync::Arc;

/// A reader that waits in the background, as a connection does.
struct Waiting(BoxFuture<'static, (Reader, TailItem)>);

impl Waiting {
    fn new(mut reader: Reader) -> Self {
        assert!(reader.drain().is_none());
        let mut waiting = Self(
            async move {
                let item = reader.tail.next().await;
                (reader, item)
            }
            .boxed(),
        );
        assert!(waiting.poll().is_none());
        waiting
    }

    /// Gives it a turn.
    fn poll(&mut self) -> Option<(Reader, TailItem)> {
        until_it_sleeps(&mut self.0.as_mut())
    }
}

fn waiting_at(store: &Arc<SeamStore>, clock: &VirtualClock, runs: u8) -> Vec<(RunRef, Waiting)> {
    (1..=runs)
        .map(|number| {
            let run = store.begin(number);
            (run, Waiting::new(store.follow(clock, run, 0)))
        })
        .collect()
}

fn questions(store: &SeamStore) -> Vec<usize> {
    std::mem::take(&mut store.heads.lock().expect("no panic"))
}

fn pages(store: &SeamStore) -> usize {
    std::mem::take(&mut *store.pages.lock().expect("no panic")).len()
}

#[test]
fn a_hundred_silent_readers_cost_one_question_a_poll() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let mut readers = waiting_at(&store, &clock, 100);
    questions(&store);
    pages(&store);
    for _ in 0..7 {
        clock.advance_ms(TIMES.poll_ms);
        for (_, reader) in &mut readers {
            assert!(reader.poll().is_none());
        }
    }
    // The place of its only event is news to the hub, not to the reader.
    assert_eq!((questions(&store), pages(&store)), (vec![100; 7], 0));
}

#[test]
fn every_reader_is_told_whoever_keeps_the_lookout() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let mut readers = waiting_at(&store, &clock, 10);
    // The holder goes away, and the next, in the middle of the queue too.
    for gone in [0, 0, 4] {
        drop(readers.remove(gone));
        clock.advance_ms(TIMES.poll_ms);
        for (_, reader) in &mut readers {
            assert!(reader.poll().is_none());
        }
        assert!(
            !questions(&store).is_empty(),
            "somebody looks after {gone} is gone"
        );
    }
    for (run, _) in &readers {
        store.commit(*run, "note", 10);
    }
    clock.advance_ms(TIMES.poll_ms);
    for turn in 0..2 {
        readers.retain_mut(|(_, reader)| match reader.poll() {
            Some((_, TailItem::Event(event))) => {
                assert_eq!(event.seq, Seq(2));
                false
            }
            Some((_, other)) => panic!("{other:?}"),
            None => true,
        });
        if turn == 0 {
            continue;
        }
        assert!(readers.is_empty(), "{} readers were not told", readers.len());
    }
}

#[test]
fn more_runs_than_one_question_bears_are_asked_for_in_parts() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let runs: Vec<RunRef> = (0..=u8::MAX).map(|number| store.begin(number)).collect();
    let mut tenants: Vec<Waiting> = runs
        .iter()
        .map(|run| Waiting::new(store.follow(&clock, *run, 0)))
        .collect();
    // Runs of which only the followers know.
    let more: Vec<_> = (0..=u8::MAX)
        .map(|number| {
            let mut run = runs[0];
            run.tenant = TenantId::from_bytes([number ^ 0x80; 16]);
            store.hub().follow(run)
        })
        .collect();
    questions(&store);
    clock.advance_ms(TIMES.poll_ms);
    for reader in &mut tenants {
        assert!(reader.poll().is_none());
    }
    assert_eq!(questions(&store).iter().sum::<usize>(), 512 - 1);
    drop(more);
}

#[test]
fn a_holder_that_is_woken_in_the_middle_of_a_round_leaves_it_to_the_next() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let mut readers = waiting_at(&store, &clock, 3);
    let (first, last) = (readers[0].0, readers[2].0);
    let weak = Arc::downgrade(&store);
    let mut done = false;
    // While the holder asks, its own run gets on, and the last one too, after the store has looked.
    store.hook(move |moment| {
        let store = weak.upgrade().expect("it is called");
        if moment == Moment::AfterHeads && !std::mem::replace(&mut done, true) {
            store.commit(first, "note", 10);
            store.hint(first);
            store.commit(last, "note", 10);
        }
    });
    clock.advance_ms(TIMES.poll_ms);
    let mut told = Vec::new();
    for _ in 0..3 {
        readers.retain_mut(|(run, reader)| match reader.poll() {
            Some((_, TailItem::Event(event))) => {
                assert_eq!(event.seq, Seq(2));
                told.push(*run);
                false
            }
            Some((_, other)) => panic!("{other:?}"),
            None => true,
        });
        clock.advance_ms(TIMES.poll_ms);
    }
    assert_eq!(told, [first, last]);
}

#[test]
fn a_holder_that_does_not_get_on_costs_the_others_one_silence() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let mut readers = waiting_at(&store, &clock, 2);
    let (run, mut reader) = readers.pop().expect("two");
    // From here on nobody polls the first one, which has the lookout.
    store.commit(run, "note", 10);
    clock.advance_ms(TIMES.heartbeat_ms);
    let Some((mut back, TailItem::HeartbeatDue)) = reader.poll() else {
        panic!("the silence is told");
    };
    assert!(back.drain().is_none());
    assert_eq!(back.seen, [1, 2], "it looked for itself");
}

#[test]
fn a_store_that_does_not_answer_the_lookout_is_asked_by_the_readers() {
    let (store, clock) = (SeamStore::new(), VirtualClock::new());
    let run = store.begin(1);
    let mut reader = store.follow(&clock, run, 0);
    assert!(reader.drain().is_none());
    *store.heads_fail.lock().expect("no panic") = true;
    store.commit(run, "note", 10);
    while clock.monotonic_us() / 1_000 < TIMES.heartbeat_ms {
        clock.advance_ms(
            TIMES
                .poll_ms
                .min(TIMES.heartbeat_ms - clock.monotonic_us() / 1_000),
        );
        if let Some(item) = reader.drain() {
            assert!(matches!(item, TailItem::HeartbeatDue), "{item:?}");
        }
    }
    assert!(reader.drain().is_none());
    assert_eq!(reader.seen, [1, 2]);
}
