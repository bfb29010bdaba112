//! Compares what was observed with what is expected.

use super::{
    observed::{Observed, Outcome, error_kind},
    pattern::{KINDS, is_subset, kind_matches},
    scenario::{
        Expectation, ExpectedObservation, ExpectedOutcome, ExpectedRequest, FileContent, Scenario, TraceMode,
    },
};
use portolan_agent::scripted::RecordedRequest;
use portolan_core::{
    call::{Exchange, Observation},
    failure::FailureKind,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Debug};

/// Names every difference; empty if there is none.
pub fn compare(scenario: &Scenario, expect: &Expectation, observed: &Observed) -> Vec<String> {
    let mut found = Differences(Vec::new());
    outcome(expect, observed, &mut found);
    if observed.only_outcome {
        return found.0;
    }
    if let Some(usage) = expect.usage {
        let actual = (observed.usage.model_calls, observed.usage.tool_calls);
        found.unequal("usage", &(usage.model_calls, usage.tool_calls), &actual);
    }
    trace(expect, observed, &mut found);
    artifacts(expect, observed, &mut found);
    evidence(expect, observed, &mut found);
    if let Some(requests) = &expect.requests {
        found.unequal("number of requests", &requests.len(), &observed.requests.len());
        for (place, (expected, actual)) in requests.iter().zip(&observed.requests).enumerate() {
            request(place + 1, expected, actual, &mut found);
        }
    }
    for (place, actual) in observed.requests.iter().enumerate() {
        always(place + 1, scenario, observed, actual, &mut found);
    }
    files(
        "workspace",
        expect.workspace_after.as_ref(),
        observed.workspace_after.as_ref(),
        &mut found,
    );
    files(
        "outside",
        expect.outside_after.as_ref(),
        Some(&observed.outside_after),
        &mut found,
    );
    found.0
}

struct Differences(Vec<String>);

impl Differences {
    fn add(&mut self, what: &str, expected: &dyn Debug, actual: &dyn Debug) {
        self.0
            .push(format!("{what}: expected {expected:?}, got {actual:?}"));
    }

    fn unequal<T: PartialEq + Debug>(&mut self, what: &str, expected: &T, actual: &T) {
        if expected != actual {
            self.add(what, expected, actual);
        }
    }
}

fn outcome(expect: &Expectation, observed: &Observed, found: &mut Differences) {
    match (&expect.outcome, &observed.outcome) {
        (ExpectedOutcome::Succeeded, Outcome::Succeeded(value)) => {
            if let Some(expected) = &expect.value {
                found.unequal("value", expected, value);
            }
        }
        (ExpectedOutcome::Error, Outcome::Failed(failure)) => {
            if let Some(expected) = &expect.error_kind {
                found.unequal("error kind", &expected.as_str(), &error_kind(failure.kind));
            }
            if let Some(part) = &expect.error_message_contains
                && !failure.message.contains(part)
            {
                found.add("error message", part, &failure.message);
            }
        }
        (ExpectedOutcome::Succeeded, Outcome::Failed(failure)) => found.add("outcome", &"a value", failure),
        (ExpectedOutcome::Error, Outcome::Succeeded(value)) => {
            found.add("outcome", &expect.error_kind, value);
        }
    }
}

fn trace(expect: &Expectation, observed: &Observed, found: &mut Differences) {
    let Some(expected) = &expect.trace_kinds else {
        return;
    };
    let named = |kind: &str| {
        expected
            .iter()
            .any(|(alternatives, _)| kind_matches(alternatives, kind))
    };
    let actual: Vec<&(String, Value)> = observed
        .trace
        .iter()
        .filter(|(kind, _)| KINDS.contains(&kind.as_str()))
        .filter(|(kind, _)| kind != "artifacts.unknown" || named(kind))
        .collect();
    let fits = |(kind, data): &(String, serde_json::Map<String, Value>), event: &(String, Value)| {
        kind_matches(kind, &event.0) && is_subset(data, &event.1)
    };
    let agrees = match expect.trace_mode {
        TraceMode::Exact => {
            expected.len() == actual.len()
                && expected
                    .iter()
                    .zip(&actual)
                    .all(|(want, event)| fits(want, event))
        }
        TraceMode::Subsequence => {
            let mut rest = actual.iter();
            expected.iter().all(|want| rest.any(|event| fits(want, event)))
        }
    };
    if !agrees {
        found.0.push(format!(
            "trace: expected {}, got {}",
            json!(expected),
            json!(actual)
        ));
    }
}

fn artifacts(expect: &Expectation, observed: &Observed, found: &mut Differences) {
    if let Some(expected) = &expect.artifacts {
        let actual: Vec<Value> = observed
            .artifacts
            .iter()
            .map(|artifact| json!(artifact))
            .collect();
        let agrees = expected.len() == actual.len()
            && expected
                .iter()
                .zip(&actual)
                .all(|(want, artifact)| is_subset(want, artifact));
        if !agrees {
            found.0.push(format!(
                "artifacts: expected {}, got {}",
                json!(expected),
                json!(actual)
            ));
        }
    }
    if expect.artifacts_unknown != observed.artifacts_unknown.is_some() {
        found.add(
            "artifacts unknown",
            &expect.artifacts_unknown,
            &observed.artifacts_unknown,
        );
    }
}

fn evidence(expect: &Expectation, observed: &Observed, found: &mut Differences) {
    if !expect.evidence {
        return;
    }
    if observed.trace.is_empty() {
        found.add("evidence", &"a trace", &"none");
    }
    if observed.execution_id.is_none() {
        found.add("evidence", &"an execution id", &"none");
    }
}

fn request(number: usize, expected: &ExpectedRequest, actual: &RecordedRequest, found: &mut Differences) {
    let tools: Vec<String> = actual.tools.iter().map(|tool| tool.name.clone()).collect();
    found.unequal(&format!("tools of request {number}"), &expected.tools, &tools);
    found.unequal(
        &format!("instructions of request {number}"),
        &expected.instructions,
        &actual.instructions,
    );
    let calls = (expected.tool_calls_count, expected.observations.len());
    let answered = (actual.exchanges.len(), actual.exchanges.len());
    found.unequal(
        &format!("calls and observations of request {number}"),
        &calls,
        &answered,
    );
    for (expected, actual) in expected.observations.iter().zip(&actual.exchanges) {
        if !observation(expected, actual) {
            found.add(&format!("observation of request {number}"), expected, actual);
        }
    }
}

fn observation(expected: &ExpectedObservation, actual: &Exchange) -> bool {
    let id = match &expected.call_id {
        None => !actual.call.id.is_empty(),
        Some(id) => *id == actual.call.id,
    };
    let content = match (&expected.output, &expected.error_contains, &actual.observation) {
        (Some(output), None, Observation::Output(value)) => output == value,
        (None, Some(part), Observation::Error(error)) => error.contains(part.as_str()),
        (_, _, Observation::Output(_) | Observation::Error(_)) => false,
    };
    id && content && expected.tool_name == actual.call.name
}

/// What holds for every request of every scenario.
fn always(
    number: usize,
    scenario: &Scenario,
    observed: &Observed,
    actual: &RecordedRequest,
    found: &mut Differences,
) {
    found.unequal(&format!("task of request {number}"), &scenario.task, &actual.task);
    found.unequal(
        &format!("context of request {number}"),
        &scenario.context,
        &actual.context,
    );
    let schema = format!("result schema of request {number}");
    found.unequal(&schema, &scenario.result_schema, &actual.result_schema);
    let id = format!("execution id of request {number}");
    found.unequal(&id, &observed.execution_id, &Some(actual.execution_id));
    if matches!(&observed.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Configuration) {
        found.add("requests of a configuration error", &0, &observed.requests.len());
    }
}

type Files = BTreeMap<String, FileContent>;

fn files(what: &str, expected: Option<&Files>, actual: Option<&Files>, found: &mut Differences) {
    match (expected, actual) {
        (Some(expected), Some(actual)) => found.unequal(&format!("files of the {what}"), expected, actual),
        (Some(expected), None) => found.add(&format!("files of the {what}"), expected, &"none"),
        (None, Some(_) | None) => {}
    }
}
