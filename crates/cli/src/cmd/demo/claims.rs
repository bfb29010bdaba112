//! What the demo claims, each judged on evidence.

use super::{
    evidence::{Evidence, Kill},
    ledger::{Answered, Send},
    story::{Model, Plan},
};
use crate::client::text;
use portolan_core::money::NanoUsd;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const SIGKILL: i32 = 9;
/// Fewer files were no project.
const LEAST_EDITS: usize = 2;

/// One claim and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Claim {
    pub(super) claim: &'static str,
    pub(super) holds: bool,
    /// What was seen.
    pub(super) seen: String,
}

fn claim(claim: &'static str, holds: bool, seen: impl Into<String>) -> Claim {
    Claim {
        claim,
        holds,
        seen: seen.into(),
    }
}

/// Judges every claim that the plan makes.
pub(super) fn judge(plan: &Plan, evidence: &Evidence) -> Vec<Claim> {
    let mut claims = vec![
        before(evidence),
        succeeded(evidence),
        after(evidence),
        edited(plan, evidence),
        really_tested(evidence),
        dense(evidence),
        one_end(evidence),
        answered_once(evidence),
    ];
    if plan.crash {
        claims.extend(killed(evidence));
    }
    if let (Model::Scripted { .. }, Some(sends)) = (&plan.model, &evidence.ledger) {
        claims.push(charged_once(sends));
        claims.push(same_keys(evidence, sends));
        claims.push(same_bill(evidence, sends));
        if let Some(kill) = &evidence.kill {
            claims.push(sent_twice(kill, sends));
        }
    }
    claims.push(claim(
        "asked to end, the server drained and exited with 0",
        evidence.last_exit == Some(0),
        format!("exit code {}", shown(evidence.last_exit)),
    ));
    claims
}

fn before(evidence: &Evidence) -> Claim {
    let tests = &evidence.tests_before;
    claim(
        "the tests failed before",
        tests.exit_code == Some(1),
        tests.says.clone(),
    )
}

fn after(evidence: &Evidence) -> Claim {
    let tests = &evidence.tests_after;
    claim(
        "run by the demo itself on the files of the run, the tests pass",
        tests.passes(),
        tests.says.clone(),
    )
}

fn succeeded(evidence: &Evidence) -> Claim {
    let run = &evidence.run;
    let seen = format!("{} with {}", text(run, "status"), run["output"]);
    claim(
        "the run succeeded with a typed result",
        text(run, "status") == "succeeded" && run["output"].is_object(),
        seen,
    )
}

fn edited(plan: &Plan, evidence: &Evidence) -> Claim {
    let paths: Vec<&str> = evidence.changed.iter().map(|file| file.path.as_str()).collect();
    let least = match plan.model {
        Model::Scripted { .. } => LEAST_EDITS,
        Model::Real(_) => 1,
    };
    claim(
        "the agent changed files, and none of the tests",
        {
            paths.len() >= least
                && !paths
                    .iter()
                    .any(|path| path.starts_with("tests/") || *path == "run-tests.sh")
        },
        paths.join(", "),
    )
}

/// The shell tool's own outputs: red first, green at the end.
fn really_tested(evidence: &Evidence) -> Claim {
    let shells: BTreeSet<&str> = of_kind(evidence, "step_started")
        .filter(|event| text(&event["data"], "name") == "shell")
        .map(|event| text(event, "stepId"))
        .collect();
    let codes: Vec<i64> = of_kind(evidence, "step_completed")
        .filter(|event| shells.contains(text(event, "stepId")))
        .filter_map(|event| event["data"]["output"]["exit_code"].as_i64())
        .collect();
    let holds = codes.first().is_some_and(|code| *code != 0) && codes.last() == Some(&0);
    claim(
        "the agent ran the tests through its shell tool, first red, at last green",
        holds,
        format!("exit codes {codes:?}"),
    )
}

fn dense(evidence: &Evidence) -> Claim {
    let seqs: Vec<u64> = evidence
        .events
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    let holds = !seqs.is_empty() && seqs.iter().copied().eq(1..=seqs.len() as u64);
    claim(
        "the journal has no gap and no double",
        holds,
        format!("{} events", seqs.len()),
    )
}

fn one_end(evidence: &Evidence) -> Claim {
    let ends = evidence
        .events
        .iter()
        .filter(|event| crate::client::is_terminal(event))
        .count();
    let last = evidence
        .events
        .last()
        .map(|event| text(event, "kind"))
        .unwrap_or_default();
    claim(
        "the journal ends once",
        ends == 1 && last == "run_succeeded",
        format!("{ends} terminal events, the last is {last}"),
    )
}

fn answered_once(evidence: &Evidence) -> Claim {
    let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
    for event in of_kind(evidence, "step_completed") {
        *answers.entry(text(event, "stepId")).or_default() += 1;
    }
    let doubled: Vec<&str> = answers
        .iter()
        .filter(|(_, count)| **count != 1)
        .map(|(step, _)| *step)
        .collect();
    let holds = !answers.is_empty() && doubled.is_empty();
    claim(
        "every step was answered once",
        holds,
        format!("{} steps, doubled: {doubled:?}", answers.len()),
    )
}

fn killed(evidence: &Evidence) -> Vec<Claim> {
    const KILLED: &str = "the server was killed with SIGKILL in the middle of a model call";
    const RECOVERED: &str = "another process went on from the journal";
    let Some(kill) = &evidence.kill else {
        return vec![
            claim(KILLED, false, "the run ended before"),
            claim(RECOVERED, false, ""),
        ];
    };
    let recovered: Vec<u64> = of_kind(evidence, "run_recovered")
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    let in_flight =
        of_kind(evidence, "step_started").any(|event| text(&event["data"], "idempotencyKey") == kill.key);
    vec![
        claim(
            KILLED,
            kill.signal == Some(SIGKILL) && in_flight,
            format!(
                "process {} died of signal {} during {}",
                kill.pid,
                shown(kill.signal),
                kill.key
            ),
        ),
        claim(
            RECOVERED,
            recovered.iter().any(|seq| *seq > kill.last_seq_before),
            format!(
                "run_recovered at {recovered:?}, after event {}",
                kill.last_seq_before
            ),
        ),
    ]
}

fn charged_once(sends: &[Send]) -> Claim {
    let mut charges: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unkeyed = 0;
    for send in sends {
        match &send.key {
            Some(key) => *charges.entry(key).or_default() += usize::from(send.answered == Answered::Charged),
            None => unkeyed += 1,
        }
    }
    let refused = sends
        .iter()
        .filter(|send| send.answered == Answered::Refused)
        .count();
    let holds =
        !charges.is_empty() && charges.values().all(|count| *count == 1) && unkeyed == 0 && refused == 0;
    claim(
        "the provider charged every key once",
        holds,
        format!("{} sends, {} keys", sends.len(), charges.len()),
    )
}

fn same_keys(evidence: &Evidence, sends: &[Send]) -> Claim {
    let sent: BTreeSet<&str> = sends.iter().filter_map(|send| send.key.as_deref()).collect();
    let intended: BTreeSet<&str> = of_kind(evidence, "step_started")
        .filter(|event| text(&event["data"], "kind") == "llm")
        .map(|event| text(&event["data"], "idempotencyKey"))
        .collect();
    claim(
        "what was sent is what the journal intended",
        sent == intended,
        format!("{} keys sent, {} in the journal", sent.len(), intended.len()),
    )
}

fn same_bill(evidence: &Evidence, sends: &[Send]) -> Claim {
    let charged = NanoUsd(sends.iter().map(|send| send.charged_nano_usd).sum());
    let shown = text(&evidence.run, "costUsd").parse().ok();
    claim(
        "the cost of the run is what the provider charged",
        shown == Some(charged),
        format!("charged ${charged}, shown ${}", text(&evidence.run, "costUsd")),
    )
}

fn sent_twice(kill: &Kill, sends: &[Send]) -> Claim {
    let of_key: Vec<&Send> = sends
        .iter()
        .filter(|send| send.key.as_deref() == Some(&kill.key))
        .collect();
    let holds = match of_key[..] {
        [first, second] => {
            first.answered == Answered::Charged
                && second.answered == Answered::FromKey
                && (first.digest == second.digest && first.bytes == second.bytes)
        }
        _ => false,
    };
    claim(
        "the call in flight was sent again with the same key and the same bytes, and not charged again",
        holds,
        of_key
            .iter()
            .map(|send| format!("send {} with {} bytes", send.send, send.bytes))
            .collect::<Vec<_>>()
            .join(", "),
    )
}

fn shown(code: Option<i32>) -> String {
    code.map_or_else(|| "none".to_owned(), |code| code.to_string())
}

fn of_kind<'a>(evidence: &'a Evidence, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    evidence
        .events
        .iter()
        .filter(move |event| text(event, "kind") == kind)
}

#[cfg(test)]
mod tests;
