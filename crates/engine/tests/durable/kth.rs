//! One fault at the k-th pass of a point, for k = 1, 2, 3 … until the run ends without it: the run ends well each time, and
//! its provider is asked under the same keys as in a run without faults.

use super::world::{Script, Setup};
use portolan_core::{
    faults::{Plan, Point, arm_thread},
    ids::Seq,
    model::ModelFailure,
};
use portolan_engine::DriveEnd;
use portolan_journal::{Progress, RunStatus};
use portolan_testkit::faults::InProcess;
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// Passes of a point after which the scenario would not end.
const MOST: u64 = 50;

/// Points whose fault is what the next append, or the last one, comes to.
const POINTS: &[Point] = &[
    Point::ModelBeforeIntent,
    Point::ModelIntended,
    Point::ModelAnswered,
    Point::AppendCommitted,
    Point::RetryDecided,
    Point::RetryCommitted,
    Point::ResultRefused,
    Point::EndBeforeCommit,
];

/// Runs the scenario under a rule. The keys that were sent, and how often the point was passed.
async fn scenario(point: Point, rule: &str) -> (BTreeSet<String>, u64) {
    let plan: Plan = rule.parse().expect("a rule");
    let armed = arm_thread(plan, Arc::new(InProcess));
    let world = Setup::new(vec![
        Script::Call("nobody", json!({})),
        Script::Fail(ModelFailure::Overloaded, None),
        Script::Final(json!(1)),
        Script::Final(json!("ok")),
    ])
    .admitted()
    .await;
    let end = world.drive_through_time(1).await;
    assert!(matches!(end, DriveEnd::Ended), "{rule}: {end:?}");
    let row = world.row().await;
    assert_eq!(row.progress.status, RunStatus::Succeeded, "{rule}");
    let mut fold = Progress::default();
    for (place, record) in world.records().await.iter().enumerate() {
        assert_eq!(record.seq, Seq(place as u64 + 1), "{rule}");
        let event = record.event().expect("decodes");
        fold.apply(&event, record.at, record.step).expect("folds");
    }
    assert_eq!(fold, row.progress, "{rule}");
    let sends = world.sends();
    let keys: BTreeSet<String> = sends.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys.len(), sends.len(), "{rule}: a key was sent twice");
    (keys, armed.hits(point))
}

#[tokio::test]
async fn one_append_that_fails_or_that_nobody_knows_of_changes_nothing_whichever_it_is() {
    let (calm, _) = scenario(Point::AppendCommitted, "").await;
    for point in POINTS {
        for action in ["error", "unknown"] {
            let mut nth = 1;
            loop {
                let rule = format!("{}@{nth}={action}", point.name());
                let (keys, hits) = scenario(*point, &rule).await;
                assert_eq!(keys, calm, "{rule}");
                assert!(hits > 0, "{} was never passed", point.name());
                if hits < nth {
                    break;
                }
                nth += 1;
                assert!(nth < MOST, "{rule}: it does not end");
            }
        }
    }
}
