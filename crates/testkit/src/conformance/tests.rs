//! The runner must be able to fail: each part of an expectation is changed, and the change must be noticed.

use super::{report::run_with, *};
use serde_json::{Value, json};

/// A scenario that passes and uses every part of the format that is compared.
fn passing() -> Value {
    json!({
        "name": "runner/all-parts", "group": "runner",
        "task": "Do it", "context": {"k": 1},
        "instructions": ["be brief", {"file": "rule.md"}, {"custom": {"text": "late", "advance_clock_ms": 5}}],
        "instruction_files": {"rule.md": "rule"},
        "limits": {"model_calls": 3, "tool_calls": 2},
        "result_schema": {"type": "string"},
        "workspace": {"kind": "memory", "files": {"a.txt": "a"}},
        "resources": {"docs": {"kind": "directory", "files": {"d.md": "D"}}},
        "outside": {"o.txt": "o"},
        "tools": ["editor", {"name": "t", "behavior": "fail", "message": "boom"}],
        "script": [
            {"batch": [
                {"id": "c1", "name": "editor", "arguments": {"operation": "write", "path": "b.txt", "content": "b"}},
                {"id": "c2", "name": "t", "arguments": {}},
            ]},
            {"final": {"value": "done"}},
        ],
        "expect": {
            "outcome": "succeeded", "value": "done",
            "usage": {"model_calls": 2, "tool_calls": 2},
            "trace_kinds": [
                ["execution.started", {"task": "Do it"}], ["model.requested", {"call": 1}],
                ["tool.started", {"call_id": "c1"}], ["tool.completed", {}],
                ["tool.started", {"tool": "t"}], ["tool.denied|tool.failed", {}],
                ["model.requested", {"call": 2}], ["result.produced", {}],
                ["artifact.created", {"path": "b.txt"}], ["execution.completed", {}],
            ],
            "artifacts": [{"path": "b.txt", "operation": "created"}],
            "evidence": true,
            "requests": [
                {"tools": ["editor", "t", "resource_docs"], "instructions": ["be brief", "rule", "late"],
                 "tool_calls_count": 0, "observations": []},
                {"tools": ["editor", "t", "resource_docs"], "instructions": ["be brief", "rule", "late"],
                 "tool_calls_count": 2, "observations": [
                    {"call_id": "c1", "tool_name": "editor", "output": {"path": "b.txt", "written": 1}},
                    {"call_id": null, "tool_name": "t", "error_contains": "boom"},
                 ]},
            ],
            "workspace_after": {"a.txt": "a", "b.txt": "b"},
            "outside_after": {"o.txt": "o"},
        },
    })
}

fn verdict(scenario: Value) -> Verdict {
    let scenario: Scenario = serde_json::from_value(scenario).expect("the scenario is well formed");
    let backends: [Box<dyn Backend>; 2] = [
        Box::new(Embedded(Mode::Blocking)),
        Box::new(Embedded(Mode::Async)),
    ];
    let mut report = run_with(&[scenario], &backends);
    report.verdicts.remove(0).1
}

#[test]
fn a_scenario_with_every_part_passes() {
    assert_eq!(verdict(passing()), Verdict::Passed);
}

#[test]
fn every_changed_part_of_an_expectation_is_noticed() {
    for (pointer, changed) in [
        ("/expect/outcome", json!("error")),
        ("/expect/value", json!("Done")),
        ("/expect/value", json!(null)),
        ("/expect/usage/model_calls", json!(1)),
        ("/expect/usage/tool_calls", json!(1)),
        ("/expect/trace_kinds/0/1/task", json!("other")),
        ("/expect/trace_kinds/1/1/call", json!(2)),
        ("/expect/trace_kinds/3/0", json!("tool.failed")),
        ("/expect/trace_kinds", json!([["execution.started", {}]])),
        ("/expect/artifacts", json!([])),
        ("/expect/artifacts/0/operation", json!("modified")),
        (
            "/expect/requests/0/tools",
            json!(["t", "editor", "resource_docs"]),
        ),
        ("/expect/requests/0/instructions", json!(["be brief"])),
        ("/expect/requests/1/tool_calls_count", json!(1)),
        ("/expect/requests/1/observations/0/call_id", json!("c9")),
        ("/expect/requests/1/observations/0/tool_name", json!("t")),
        ("/expect/requests/1/observations/0/output/written", json!(1.0)),
        ("/expect/requests/1/observations/1/error_contains", json!("bang")),
        ("/expect/workspace_after", json!({"a.txt": "a"})),
        ("/expect/workspace_after/b.txt", json!("c")),
        ("/expect/outside_after/o.txt", json!("p")),
    ] {
        let mut scenario = passing();
        *scenario
            .pointer_mut(pointer)
            .expect("the pointer leads somewhere") = changed;
        let verdict = verdict(scenario);
        assert!(
            matches!(&verdict, Verdict::Failed(all) if all.len() >= 2),
            "{pointer}: {verdict:?}"
        );
    }
}

#[test]
fn a_subsequence_may_leave_events_out_but_not_reorder_them() {
    let mut scenario = passing();
    scenario["expect"]["trace_mode"] = json!("subsequence");
    scenario["expect"]["trace_kinds"] = json!([["execution.started", {}], ["result.produced", {}]]);
    assert_eq!(verdict(scenario.clone()), Verdict::Passed);
    scenario["expect"]["trace_kinds"] = json!([["result.produced", {}], ["execution.started", {}]]);
    assert!(matches!(verdict(scenario), Verdict::Failed(_)));
}

#[test]
fn an_unknown_need_skips_and_a_misspelt_field_is_refused() {
    let mut scenario = passing();
    scenario["requires"] = json!(["quantum_tools"]);
    assert!(matches!(verdict(scenario), Verdict::Skipped(_)));
    let mut scenario = passing();
    scenario["expect"]["tracekinds"] = json!([]);
    assert!(serde_json::from_value::<Scenario>(scenario).is_err());
}

#[test]
fn a_scripted_fault_of_the_first_look_is_a_configuration_error() {
    let mut scenario = passing();
    scenario["workspace"]["fault"] = json!("snapshot");
    scenario["expect"] = json!({"outcome": "error", "error_kind": "configuration", "requests": []});
    assert_eq!(verdict(scenario), Verdict::Passed);
}
