use super::*;
use crate::cmd::demo::{evidence::Changed, project::TestRun};
use serde_json::json;

fn plan() -> Plan {
    Plan {
        model: Model::Scripted { thinking_ms: 0 },
        crash: true,
        keep: false,
    }
}

fn send(number: usize, key: &str, answered: Answered) -> Send {
    Send {
        send: number,
        at: String::new(),
        key: Some(key.to_owned()),
        call: 1,
        bytes: 100,
        digest: format!("digest of {key}"),
        answered,
        charged_nano_usd: if answered == Answered::Charged { 50 } else { 0 },
    }
}

/// A story in which everything holds.
fn good() -> Evidence {
    let step = |seq, kind: &str, step: &str, data: Value| json!({"seq": seq, "kind": kind, "stepId": step, "data": data});
    let started = |seq, id: &str, kind: &str, name: &str| {
        step(
            seq,
            "step_started",
            id,
            json!({"kind": kind, "name": name, "idempotencyKey": format!("run:{id}:1")}),
        )
    };
    let tests = |code| json!({"status": "ok", "output": {"exit_code": code}});
    let file = |path: &str| Changed {
        path: path.to_owned(),
        operation: "modified".to_owned(),
        content: Some(Vec::new()),
    };
    Evidence {
        tests_before: TestRun {
            exit_code: Some(1),
            says: "1 failed".to_owned(),
        },
        tests_after: TestRun {
            exit_code: Some(0),
            says: "0 failed".to_owned(),
        },
        kill: Some(Kill {
            pid: 7,
            signal: Some(9),
            key: "run:llm-1:1".to_owned(),
            call: 1,
            last_seq_before: 3,
        }),
        run: json!({"status": "succeeded", "output": {"summary": ""}, "costUsd": "0.00000005"}),
        events: vec![
            started(1, "tool-1", "tool", "shell"),
            step(2, "step_completed", "tool-1", tests(1)),
            started(3, "llm-1", "llm", "demo/fixer"),
            json!({"seq": 4, "kind": "run_recovered", "data": {}}),
            step(5, "step_completed", "llm-1", json!({"status": "ok"})),
            started(6, "tool-2", "tool", "shell"),
            step(7, "step_completed", "tool-2", tests(0)),
            json!({"seq": 8, "kind": "run_succeeded", "data": {}}),
        ],
        steps: Vec::new(),
        changed: vec![file("lib/a.sh"), file("lib/b.sh")],
        ledger: Some(vec![
            send(1, "run:llm-1:1", Answered::Charged),
            send(2, "run:llm-1:1", Answered::FromKey),
        ]),
        last_exit: Some(0),
    }
}

fn broken(evidence: &Evidence) -> Vec<&'static str> {
    let claims = judge(&plan(), evidence).into_iter();
    claims
        .filter(|claim| !claim.holds)
        .map(|claim| claim.claim)
        .collect()
}

#[test]
fn a_good_story_holds_in_every_claim() {
    assert_eq!(broken(&good()), Vec::<&str>::new());
    assert_eq!(judge(&plan(), &good()).len(), 15);
}

/// Each lie breaks the claim that it is about.
#[test]
fn every_claim_can_fail() {
    type Lie = fn(&mut Evidence);
    let lies: [(&str, Lie); 16] = [
        ("failed before", |e| e.tests_before.exit_code = Some(0)),
        ("succeeded with", |e| e.run["status"] = json!("failed")),
        ("tests pass", |e| e.tests_after.exit_code = Some(1)),
        ("none of the tests", |e| e.changed.truncate(1)),
        ("none of the tests", |e| {
            e.changed[0].path = "tests/a.sh".to_owned()
        }),
        ("at last green", |e| {
            e.events[6]["data"]["output"]["exit_code"] = json!(1)
        }),
        ("no gap", |e| e.events[4]["seq"] = json!(6)),
        ("ends once", |e| {
            e.events.push(json!({"seq": 9, "kind": "run_failed"}))
        }),
        ("answered once", |e| e.events[6]["stepId"] = json!("tool-1")),
        ("SIGKILL", |e| e.kill.as_mut().expect("there").signal = Some(15)),
        ("went on from the journal", |e| {
            e.events[3]["kind"] = json!("run_resumed")
        }),
        ("charged every key once", |e| {
            e.ledger.as_mut().expect("there")[1].answered = Answered::Charged
        }),
        ("the journal intended", |e| {
            e.ledger.as_mut().expect("there")[0].key = Some("run:llm-9:1".to_owned())
        }),
        ("what the provider charged", |e| {
            e.run["costUsd"] = json!("0.0000001")
        }),
        ("the same bytes", |e| {
            e.ledger.as_mut().expect("there")[1].digest = String::new()
        }),
        ("exited with 0", |e| e.last_exit = None),
    ];
    for (about, lie) in lies {
        let mut evidence = good();
        lie(&mut evidence);
        let broken = broken(&evidence);
        assert!(
            broken.iter().any(|claim| claim.contains(about)),
            "{about}: {broken:?}"
        );
    }
}

#[test]
fn a_run_that_ended_before_the_kill_proves_nothing() {
    let mut evidence = good();
    evidence.kill = None;
    assert!(broken(&evidence).iter().any(|claim| claim.contains("SIGKILL")));
}
