//! The end of the demo: result, diff, ledger, claims, and what to try next.

use super::{
    claims::Claim,
    evidence::Changed,
    ledger::{Answered, Send},
    project,
    story::{Model, Plan, Told},
};
use crate::{
    Failure, client,
    failure::OrFail as _,
    render::{Table, diff, waterfall},
    screen::{Screen, Style},
};
use portolan_core::{money::NanoUsd, time::Timestamp};
use serde_json::{Value, json};
use std::path::Path;

/// Characters of a digest that are shown.
const DIGEST_WIDTH: usize = 12;
/// The width of text within a document; a diff does not ask for it.
const PLAIN_WIDTH: usize = 100;

/// Prints the end for people.
pub(super) fn text(plan: &Plan, told: &Told, claims: &[Claim], screen: &Screen) -> Result<(), Failure> {
    let evidence = &told.evidence;
    heading(screen, "Steps")?;
    let end: Timestamp = client::text(&evidence.run, "finishedAt")
        .parse()
        .unwrap_or_default();
    lines(screen, waterfall(screen, &evidence.steps, end))?;

    heading(screen, "Result")?;
    let output = serde_json::to_string_pretty(&evidence.run["output"]);
    lines(
        screen,
        output
            .or_unavailable(|| "the result cannot be shown".to_owned())?
            .lines()
            .map(str::to_owned),
    )?;

    heading(screen, "Changes")?;
    for file in &evidence.changed {
        lines(screen, change(screen, file))?;
    }
    if let Some(sends) = &evidence.ledger {
        heading(screen, "Ledger of the provider: every send")?;
        lines(screen, ledger(screen, sends))?;
    }
    heading(screen, "Claims")?;
    for claim in claims {
        let (mark, style) = if claim.holds {
            ("✓", Style::Good)
        } else {
            ("✗", Style::Bad)
        };
        screen.line(&format!("  {} {}", screen.paint(style, mark), claim.claim))?;
        screen.line(&screen.paint(Style::Dim, &format!("    {}", claim.seen)))?;
    }
    heading(screen, "Try next")?;
    let next = next(plan, told);
    lines(screen, next.into_iter().map(|line| format!("  {line}")))?;
    let broken = claims.iter().filter(|claim| !claim.holds).count();
    if broken > 0 {
        screen.line("")?;
        screen.line(&screen.paint(Style::Bad, &format!("{broken} claims do not hold.")))?;
    }
    Ok(())
}

fn heading(screen: &Screen, title: &str) -> Result<(), Failure> {
    screen.line("")?;
    screen.line(&screen.paint(Style::Strong, title))
}

fn lines(screen: &Screen, lines: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    lines.into_iter().try_for_each(|line| screen.line(&line))
}

fn change(screen: &Screen, file: &Changed) -> Vec<String> {
    let before = project::original(&file.path).map(str::as_bytes);
    diff(screen, &file.path, before, file.content.as_deref())
}

fn ledger(screen: &Screen, sends: &[Send]) -> Vec<String> {
    let mut table = Table::new(["SEND", "KEY", "BYTES", "BLAKE3", "ANSWERED", "CHARGED"]);
    for send in sends {
        let answered = match send.answered {
            Answered::Charged => "fresh",
            Answered::FromKey => "from its key, again",
            Answered::Refused => "refused",
        };
        table.row([
            send.send.to_string(),
            send.key.clone().unwrap_or_else(|| "none".to_owned()),
            send.bytes.to_string(),
            send.digest.chars().take(DIGEST_WIDTH).collect(),
            answered.to_owned(),
            format!("${}", NanoUsd(send.charged_nano_usd)),
        ]);
    }
    let mut lines = table.lines(screen);
    let total = NanoUsd(sends.iter().map(|send| send.charged_nano_usd).sum());
    lines.push(screen.paint(Style::Strong, &format!("charged in all: ${total}")));
    lines
}

/// Three commands that work.
fn next(plan: &Plan, told: &Told) -> Vec<String> {
    match &told.kept {
        Some(directory) => {
            let data = quoted(&directory.join("data"));
            vec![
                format!("portolan serve --data {data}    # then, beside it:"),
                format!("portolan runs steps {} --data {data}", told.run_id),
                format!("portolan runs events {} --data {data}", told.run_id),
            ]
        }
        None => vec![
            "portolan demo --keep                            # and look at the run afterwards".to_owned(),
            match plan.model {
                Model::Scripted { .. } => {
                    "portolan demo --model openai/gpt-4.1-mini       # the same with a real model and its key"
                        .to_owned()
                }
                Model::Real(_) => {
                    "portolan demo                                   # the same with the script".to_owned()
                }
            },
            "portolan init                                   # an agent of your own".to_owned(),
        ],
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    if is_plain {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The same as one document.
pub(super) fn json(plan: &Plan, told: &Told, claims: &[Claim]) -> Value {
    let evidence = &told.evidence;
    let files: Vec<Value> = evidence
        .changed
        .iter()
        .map(|file| {
            let change = change(&Screen::plain(PLAIN_WIDTH), file).join("\n");
            json!({"path": file.path, "operation": file.operation, "diff": change})
        })
        .collect();
    json!({
        "holds": claims.iter().all(|claim| claim.holds),
        "claims": claims,
        "model": match &plan.model {
            Model::Scripted { .. } => "demo/fixer",
            Model::Real(name) => name,
        },
        "runId": told.run_id,
        "status": client::text(&evidence.run, "status"),
        "result": evidence.run["output"],
        "costUsd": evidence.run["costUsd"],
        "recoveries": evidence.run["recoveries"],
        "testsBefore": evidence.tests_before,
        "testsAfter": evidence.tests_after,
        "killed": evidence.kill,
        "files": files,
        "ledger": evidence.ledger,
        "events": evidence.events,
        "steps": evidence.steps,
        "directory": told.kept,
        "next": next(plan, told),
    })
}
