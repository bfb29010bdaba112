//! `portolan runs get RUN`.

use crate::{
    Exit, Failure,
    client::{Server, text},
    failure::OrFail as _,
    render::{failure_line, span},
    screen::{Form, Screen, Style},
};
use serde_json::Value;

/// Shows a run.
pub(super) async fn run(id: &str, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    let answer = server.get(&["v1", "runs", id], &[]).await?;
    if screen.form == Form::Text {
        for line in summary(screen, &answer["run"])? {
            screen.line(&line)?;
        }
    } else {
        screen.document(&answer)?;
    }
    Ok(Exit::Ok)
}

/// How a command ends that waited for this run.
pub(in crate::cmd) fn exit_of(run: &Value) -> Exit {
    match text(run, "status") {
        "failed" | "cancelled" => Exit::Negative,
        "waiting" => Exit::Waiting,
        _ => Exit::Ok,
    }
}

/// A run for people.
pub(in crate::cmd) fn summary(screen: &Screen, run: &Value) -> Result<Vec<String>, Failure> {
    let status = text(run, "status");
    let style = match status {
        "succeeded" => Style::Good,
        "failed" | "cancelled" => Style::Bad,
        _ => Style::Warn,
    };
    let mut lines = vec![format!(
        "{}  {}  {} version {}",
        text(run, "id"),
        screen.paint(style, status),
        text(run, "agentName"),
        run["agentVersion"]
    )];
    let usage = &run["usage"];
    let cost = match (run["costUsd"].as_str(), run["costIsEstimate"].as_bool()) {
        (None, _) => "unknown".to_owned(),
        (Some(cost), Some(true)) => format!("${cost} (partly an estimate)"),
        (Some(cost), _) => format!("${cost}"),
    };
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {name:<10} {value}"));
        }
    };
    field("model", text(run, "model").to_owned());
    field(
        "used",
        format!(
            "{} model calls, {} tool calls, {} tokens in, {} out, {} active",
            usage["modelCalls"],
            usage["toolCalls"],
            usage["tokensIn"],
            usage["tokensOut"],
            span(run["wallTimeUsedMs"].as_u64().unwrap_or_default())
        ),
    );
    field("cost", cost);
    field("created", text(run, "createdAt").to_owned());
    field("finished", text(run, "finishedAt").to_owned());
    if run["recoveries"]
        .as_u64()
        .is_some_and(|recoveries| recoveries > 0)
    {
        field("recoveries", run["recoveries"].to_string());
    }
    if let Some(waiting) = run.get("waitingOn") {
        let why = format!("{} since {}", text(waiting, "why"), text(waiting, "since"));
        field(
            "waits for",
            format!("{why}; moved by {}", text(waiting, "movedBy")),
        );
    }
    if let Some(error) = run.get("error").filter(|error| !error.is_null()) {
        field("error", failure_line(error));
    }
    if let Some(output) = run.get("output").filter(|_| status == "succeeded") {
        let output = serde_json::to_string_pretty(output)
            .or_unavailable(|| "the output cannot be shown".to_owned())?;
        field("output", output.replace('\n', "\n             "));
    }
    Ok(lines)
}
