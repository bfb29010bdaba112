//! Whether everything holds that was promised: of the runs, the journals, the streams, the ledgers and the books.

use super::{
    provider::Provider,
    users::{History, Seen},
};
use crate::support::{Ended, assert_dense, portolan};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The calls of a run that goes all the way. One fails for good at its first send: it is tried once more under the next
/// attempt, or, where nobody heard of the failure, sent again under the same. No crash makes another attempt.
const CALLS: [&str; 4] = ["llm-1:1", "llm-2:1", "llm-3:1", "llm-4:1"];
const RETRY: &str = "llm-2:2";

/// Judges a case after its last server has ended.
pub(super) fn judge(folder: &Path, database: Option<&str>, provider: &Provider, history: &History) {
    let ids: BTreeSet<&str> = history
        .runs
        .iter()
        .filter_map(|seen| seen.run["id"].as_str())
        .collect();
    let listed: BTreeSet<&str> = history
        .listed
        .iter()
        .filter_map(|run| run["id"].as_str())
        .collect();
    assert_eq!(ids, listed, "what was acknowledged is what there is");
    assert_eq!(ids.len(), history.runs.len(), "a key is one run");
    let (keys, wrong) = provider.books();
    assert!(wrong.is_empty(), "{wrong:?}");
    let marks = fs::read_to_string(folder.join("marks")).unwrap_or_default();
    for seen in &history.runs {
        let id = seen.run["id"].as_str().expect("an id");
        assert_dense(&seen.events);
        assert_eq!(
            seen.read,
            seen.events.len() as u64,
            "the reader of {id} has all of it"
        );
        let calls: BTreeMap<&str, bool> = keys
            .iter()
            .filter_map(|(key, (_, charged))| Some((key.strip_prefix(id)?.strip_prefix(':')?, *charged)))
            .collect();
        if seen.is_silent {
            assert_eq!(seen.run["status"], "cancelled", "{}", seen.run);
            assert!(calls.keys().eq(["llm-1:1"].iter()), "{calls:?}");
        } else {
            assert_eq!(seen.run["status"], "succeeded", "{}", seen.run);
            assert_eq!(seen.run["output"], json!({"notes": 2}), "{}", seen.run);
            assert!(
                calls.keys().filter(|call| **call != RETRY).eq(CALLS.iter()),
                "{id}: {calls:?}"
            );
            assert_eq!(
                calls.values().filter(|charged| **charged).count(),
                4,
                "{id}: {calls:?}"
            );
            for (mark, step) in [("batch", "tool-2"), ("alone", "tool-4")] {
                judge_mark(&marks, id, mark, &seen.events, step);
            }
            assert_eq!(kinds(seen, "result_rejected"), 1, "one result is refused, once");
        }
    }
    // A call is sent again only because its server died or its answer was not heard.
    assert!(keys.values().all(|(count, _)| *count <= 3), "{keys:?}");
    verify(folder, database);
}

fn kinds(seen: &Seen, kind: &str) -> usize {
    seen.events.iter().filter(|event| event["kind"] == kind).count()
}

/// A command that may run once ran once, or nobody knows and the journal says so.
fn judge_mark(marks: &str, id: &str, mark: &str, events: &[Value], step: &str) {
    let count = marks
        .lines()
        .filter(|line| *line == format!("{id}:{mark}"))
        .count();
    let is_doubtful = events
        .iter()
        .any(|event| event["kind"] == "step_ambiguous" && event["stepId"] == step);
    let least = usize::from(!is_doubtful);
    assert!(
        (least..=1).contains(&count),
        "the command {mark} of {id} ran {count} times; in doubt: {is_doubtful}"
    );
}

fn verify(folder: &Path, database: Option<&str>) {
    let mut arguments = vec!["verify", "--json"];
    match database {
        Some(database) => arguments.extend(["--database", database]),
        None => arguments.extend(["--data", "data"]),
    }
    Ended::of(portolan(folder, &arguments)).expect(0);
}
