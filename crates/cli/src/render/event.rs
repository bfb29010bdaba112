//! One event of a journal on one line.

use super::units::{clock_time, fit};
use crate::{
    client::text,
    screen::{Screen, Style},
};
use portolan_core::time::Timestamp;
use serde_json::Value;

/// An event as a person reads it: place, time, step, kind, and what matters of its data.
pub(crate) fn event_line(screen: &Screen, event: &Value) -> String {
    let kind = text(event, "kind");
    let seq = event.get("seq").and_then(Value::as_u64).unwrap_or_default();
    let at = text(event, "at")
        .parse::<Timestamp>()
        .map(clock_time)
        .unwrap_or_default();
    let step = text(event, "stepId");
    let shown_kind = screen.paint(style(kind), &format!("{kind:<20}"));
    let head = format!("{seq:>5}  {at}  {step:<8} ");
    let room = screen.width().saturating_sub(head.chars().count() + 21).max(20);
    let detail = fit(&detail(kind, event.get("data").unwrap_or(&Value::Null)), room);
    format!("{head}{shown_kind} {detail}").trim_end().to_owned()
}

fn style(kind: &str) -> Style {
    match kind {
        "run_succeeded" => Style::Good,
        "run_failed" | "run_cancelled" | "step_failed" | "result_rejected" => Style::Bad,
        "run_recovered" | "run_waiting" | "step_ambiguous" | "run_cancel_requested" => Style::Warn,
        "step_started" => Style::Dim,
        _ => Style::Strong,
    }
}

fn detail(kind: &str, data: &Value) -> String {
    let member = |name: &str| data.get(name).map_or_else(String::new, plain);
    match kind {
        "run_queued" => format!("{} version {}", member("agentName"), member("agentVersion")),
        "run_started" => member("model"),
        "run_recovered" => format!("another owner goes on (recovery {})", member("recoveries")),
        "run_waiting" => format!("{} until {}", member("reason"), member("until")),
        "step_started" => format!("{} {}", member("name"), member("idempotencyKey")),
        "step_completed" => completed(data),
        "step_failed" => format!("{} (retryable: {})", member("message"), member("retryable")),
        "step_ambiguous" => member("message"),
        "result_rejected" => member("error"),
        "artifact_created" | "artifact_modified" | "artifact_deleted" => member("path"),
        "run_succeeded" => member("output"),
        "run_failed" | "run_cancelled" => failure_line(data.get("error").unwrap_or(&Value::Null)),
        _ => plain(data),
    }
}

fn completed(data: &Value) -> String {
    let status = text(data, "status");
    let said = data.get("output").map(said);
    let said = said.or_else(|| data.get("error").map(plain)).unwrap_or_default();
    match data.get("costUsd") {
        Some(cost) => format!("{status} ${} {said}", plain(cost)),
        None => format!("{status} {said}"),
    }
}

/// What a model or a tool said, as far as one line has room.
fn said(output: &Value) -> String {
    match output.get("action") {
        Some(action) => plain(action),
        None => plain(output),
    }
}

/// The `error` of a run on one line.
pub(crate) fn failure_line(error: &Value) -> String {
    let mut line = format!("{}: {}", text(error, "kind"), text(error, "message"));
    for member in ["limit", "boundary", "stepId"] {
        if let Some(value) = error.get(member) {
            line.push_str(&format!(" ({member} {})", plain(value)));
        }
    }
    line
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_one_line_of_the_terminals_width() {
        let event = json!({
            "seq": 7, "kind": "step_completed", "stepId": "tool-2", "at": "2026-01-01T10:20:30.456Z",
            "data": {"status": "ok", "output": "x".repeat(500)},
        });
        let line = event_line(&Screen::plain(80), &event);
        assert!(
            line.starts_with("    7  10:20:30.456  tool-2   step_completed       ok xxx"),
            "{line}"
        );
        assert_eq!(line.chars().count(), 80);
    }

    #[test]
    fn a_failure_says_which_limit_where() {
        let error = json!({"kind": "limit_exhausted", "message": "out of calls", "limit": "modelCalls"});
        assert_eq!(
            failure_line(&error),
            "limit_exhausted: out of calls (limit modelCalls)"
        );
    }
}
