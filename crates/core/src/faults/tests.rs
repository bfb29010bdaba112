use super::*;
use crate::Fut;
use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

#[derive(Debug, Default)]
struct Counting {
    slept_ms: AtomicU64,
    deaths: AtomicU64,
}

impl Hook for Counting {
    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()> {
        self.sleep_ms_blocking(ms);
        Box::pin(std::future::ready(()))
    }

    fn sleep_ms_blocking(&self, ms: u64) {
        self.slept_ms.fetch_add(ms, Ordering::SeqCst);
    }

    fn fired(&self, _point: &'static str) {}

    fn die(&self) {
        self.deaths.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future)
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn names_are_found_again_and_are_unique() {
    for point in Point::ALL {
        assert_eq!(Point::named(point.name()), Some(*point));
    }
    for plant in Plant::ALL {
        assert_eq!(Plant::named(plant.name()), Some(*plant));
    }
}

#[test]
fn a_rule_holds_at_its_hit_and_at_no_other() {
    let plan: Plan = "model.intended@2=error; claim.committed=delay:5"
        .parse()
        .expect("two rules");
    let hook = Arc::new(Counting::default());
    let scope = arm_thread(plan, Arc::clone(&hook) as Arc<dyn Hook>);
    let passes = [(); 3].map(|()| poll(at(Point::ModelIntended)));
    assert_eq!(
        passes,
        [
            Poll::Ready(None),
            Poll::Ready(Some(Fault::Error)),
            Poll::Ready(None)
        ]
    );
    assert_eq!(at_blocking(Point::ClaimCommitted), None);
    assert_eq!(poll(at(Point::ClaimCommitted)), Poll::Ready(None));
    assert_eq!(hook.slept_ms.load(Ordering::SeqCst), 10);
    assert_eq!(scope.hits(Point::ModelIntended), 3);
}

#[test]
fn who_dies_does_not_go_on() {
    let hook = Arc::new(Counting::default());
    let plan: Plan = "model.sent@1=die".parse().expect("a rule");
    let _scope = arm_thread(plan, Arc::clone(&hook) as Arc<dyn Hook>);
    assert_eq!(poll(at(Point::ModelSent)), Poll::Pending);
    assert_eq!(hook.deaths.load(Ordering::SeqCst), 1);
}

#[test]
fn a_gate_holds_until_it_is_opened() {
    let gate = Arc::new(Gate::default());
    let plan = Plan::new().with(
        Point::StreamSeam,
        Trigger::Always,
        Action::Hold(Arc::clone(&gate)),
    );
    let _scope = arm_thread(plan, Arc::new(Counting::default()));
    let mut held = pin!(at(Point::StreamSeam));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(held.as_mut().poll(&mut context), Poll::Pending);
    gate.open();
    assert_eq!(held.as_mut().poll(&mut context), Poll::Ready(None));
    assert_eq!(at_blocking(Point::StreamSeam), None);
}

#[test]
fn what_is_no_rule_is_refused() {
    for text in [
        "nowhere=die",
        "model.sent",
        "model.sent=fly",
        "model.sent@0=die",
        "model.sent@x=die",
        "model.sent=delay:x",
        "model.sent=die:5",
    ] {
        assert!(text.parse::<Plan>().is_err(), "{text}");
    }
}

#[test]
fn chance_is_the_same_for_a_seed() {
    let fired = |seed| {
        let trigger = Trigger::Chance { seed, per_mille: 200 };
        (1..1_000)
            .filter(|hit| trigger.fires(*hit, Point::Accept))
            .collect::<Vec<_>>()
    };
    assert_eq!(fired(7), fired(7));
    assert_ne!(fired(7), fired(8));
    assert!((100..300).contains(&fired(7).len()));
}

#[test]
fn a_bug_is_planted_on_its_thread_only() {
    assert!(!planted(Plant::EpochUnchecked));
    let guard = plant(Plant::EpochUnchecked);
    assert!(planted(Plant::EpochUnchecked));
    let elsewhere = std::thread::scope(|scope| {
        let other = scope.spawn(|| planted(Plant::EpochUnchecked));
        other.join().expect("it does not panic")
    });
    assert!(!elsewhere);
    drop(guard);
    assert!(!planted(Plant::EpochUnchecked));
}
