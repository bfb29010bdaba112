//! `portolan runs ls`.

use super::{pages, print_data};
use crate::{
    Exit, Failure,
    args::RunsLsArgs,
    client::{Server, text},
    render::{Table, span},
    screen::Screen,
};
use portolan_core::time::Timestamp;
use serde_json::Value;

/// Lists runs, newest first.
pub(super) async fn run(args: &RunsLsArgs, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    let filters = [
        ("status", &args.status),
        ("agentName", &args.agent),
        ("tag", &args.tag),
        ("since", &args.since),
        ("until", &args.until),
    ];
    let query: Vec<(&str, String)> = filters
        .into_iter()
        .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
        .collect();
    let most = usize::try_from(args.limit.max(1)).unwrap_or(usize::MAX);
    let runs = pages(server, &["v1", "runs"], &query, most).await?;
    if print_data(screen, &runs)? {
        return Ok(Exit::Ok);
    }
    if runs.is_empty() {
        screen.talk("no runs; `portolan run AGENT` starts one");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["ID", "AGENT", "STATUS", "STEPS", "COST", "TOOK", "CREATED"]);
    for run in &runs {
        let usage = &run["usage"];
        let count = |member: &str| usage[member].as_u64().unwrap_or_default();
        table.row([
            text(run, "id").to_owned(),
            text(run, "agentName").to_owned(),
            text(run, "status").to_owned(),
            (count("modelCalls") + count("toolCalls")).to_string(),
            run["costUsd"]
                .as_str()
                .map_or_else(|| "?".to_owned(), |cost| format!("${cost}")),
            took(run).map(span).unwrap_or_default(),
            text(run, "createdAt").to_owned(),
        ]);
    }
    for line in table.lines(screen) {
        screen.line(&line)?;
    }
    Ok(Exit::Ok)
}

/// From admission to the end.
fn took(run: &Value) -> Option<u64> {
    let time = |member: &str| text(run, member).parse::<Timestamp>().ok();
    Some(time("finishedAt")?.ms_since(time("createdAt")?))
}
