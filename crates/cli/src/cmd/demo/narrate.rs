//! What a person sees while the demo goes on.

use super::{
    ledger::Held,
    project::{FILES, TestRun},
    story::{Model, Plan},
};
use crate::{
    Failure,
    client::text,
    render::{fit, span},
    screen::{Form, Screen, Style},
};
use portolan_core::time::Timestamp;
use serde_json::Value;
use std::{cell::RefCell, collections::HashMap, path::Path};

/// Tells the story on stdout, if a person reads it.
#[derive(Debug)]
pub(super) struct Narrator<'a> {
    screen: &'a Screen,
    /// When steps began, and what they are.
    begun: RefCell<HashMap<String, (Timestamp, String)>>,
}

impl<'a> Narrator<'a> {
    pub(super) fn new(screen: &'a Screen) -> Self {
        Self {
            screen,
            begun: RefCell::default(),
        }
    }

    fn say(&self, line: &str) -> Result<(), Failure> {
        if self.screen.form == Form::Text {
            self.screen.line(line)?;
        }
        Ok(())
    }

    fn fact(&self, name: &str, what: &str) -> Result<(), Failure> {
        self.say(&format!("  {name:<9} {what}"))
    }

    pub(super) fn opening(&self, plan: &Plan, tests: &TestRun) -> Result<(), Failure> {
        let end = if plan.crash {
            "; its server dies half-way"
        } else {
            ""
        };
        let title = format!("An agent repairs a small project{end}.");
        self.say(&self.screen.paint(Style::Strong, &title))?;
        self.say("")?;
        self.fact(
            "project",
            &format!(
                "{} files of plain sh; `sh run-tests.sh` says: {}",
                FILES.len(),
                tests.says
            ),
        )?;
        match &plan.model {
            Model::Scripted { .. } => Ok(()),
            Model::Real(name) => self.fact("model", name),
        }
    }

    pub(super) fn provider(&self, pid: i32, url: &str) -> Result<(), Failure> {
        self.fact(
            "provider",
            &format!("process {pid} on {url}: scripted, with a ledger of every send"),
        )
    }

    pub(super) fn server(&self, pid: i32, url: &str, directory: &Path) -> Result<(), Failure> {
        self.fact(
            "server",
            &format!(
                "process {pid} on {url}, data in {}",
                directory.join("data").display()
            ),
        )
    }

    pub(super) fn run(&self, id: &str) -> Result<(), Failure> {
        self.fact("run", id)?;
        self.say("")
    }

    pub(super) fn killing(&self, pid: i32, held: &Held, is_held: bool) -> Result<(), Failure> {
        let who = if is_held {
            format!(
                "The provider has received model call {} and holds its reply.",
                held.call
            )
        } else {
            format!("Model call {} is on its way.", held.call)
        };
        self.say("")?;
        self.say(
            &self
                .screen
                .paint(Style::Warn, &format!("  ✂ {who} Now: kill -9 {pid}")),
        )
    }

    pub(super) fn killed(&self, pid: i32, signal: Option<i32>) -> Result<(), Failure> {
        let of = signal.map_or_else(|| "no signal".to_owned(), |signal| format!("signal {signal}"));
        self.say(
            &self
                .screen
                .paint(Style::Warn, &format!("    process {pid} is dead, of {of}")),
        )
    }

    pub(super) fn again(&self, pid: i32, url: &str) -> Result<(), Failure> {
        let line = format!("    a new server is ready: process {pid} on {url}, with the same data");
        self.say(&self.screen.paint(Style::Warn, &line))?;
        self.say("")
    }

    /// One event of the journal, as far as it moves the story.
    pub(super) fn event(&self, event: &Value) -> Result<(), Failure> {
        let (kind, step, data) = (text(event, "kind"), text(event, "stepId"), &event["data"]);
        let at: Timestamp = text(event, "at").parse().unwrap_or_default();
        match kind {
            "step_started" => {
                let name = text(data, "name").to_owned();
                self.begun.borrow_mut().insert(step.to_owned(), (at, name));
                Ok(())
            }
            "step_completed" => {
                let (began, name) = self
                    .begun
                    .borrow_mut()
                    .remove(step)
                    .unwrap_or((at, String::new()));
                self.step(step, &name, at.ms_since(began), data)
            }
            "step_failed" => self.say(&format!(
                "  {step:<8} {}",
                self.screen.paint(Style::Bad, text(data, "message"))
            )),
            "step_ambiguous" => self.say(&format!(
                "  {step:<8} {}",
                self.screen.paint(Style::Warn, text(data, "message"))
            )),
            "run_recovered" => self.say(
                &self
                    .screen
                    .paint(Style::Warn, "  ↻ run_recovered: it goes on from its journal"),
            ),
            "run_succeeded" => self.say(&self.screen.paint(Style::Good, "  ✓ run_succeeded")),
            "run_failed" | "run_cancelled" => {
                let why = text(&data["error"], "message");
                self.say(&self.screen.paint(Style::Bad, &format!("  ✗ {kind}: {why}")))
            }
            _ => Ok(()),
        }
    }

    fn step(&self, step: &str, name: &str, took_ms: u64, data: &Value) -> Result<(), Failure> {
        let what = match data["output"].get("action") {
            Some(action) => format!("→ {}", intent(action)),
            None => format!("  {name}: {}", outcome(data)),
        };
        let room = self.screen.width().saturating_sub(24).max(30);
        let what = fit(&what, room);
        let took = self.screen.paint(Style::Dim, &span(took_ms));
        self.say(&format!("  {step:<8} {what:<room$} {took}"))
    }
}

/// What a model wants, from its journaled action.
fn intent(action: &Value) -> String {
    let call = action
        .get("call")
        .or_else(|| action.get("final"))
        .unwrap_or(action);
    let name = call["name"].as_str().unwrap_or("result");
    let arguments = call
        .get("arguments")
        .or_else(|| call.get("value"))
        .unwrap_or(&Value::Null);
    let arguments = arguments.get("json").unwrap_or(arguments);
    match (
        arguments["operation"].as_str(),
        arguments["path"].as_str(),
        arguments["command"].as_str(),
    ) {
        (Some(operation), Some(path), _) => format!("{name} {operation} {path}"),
        (_, _, Some(command)) => format!("{name} {command}"),
        _ => format!("{name} {arguments}"),
    }
}

/// What a tool answered.
fn outcome(data: &Value) -> String {
    let output = &data["output"];
    if let Some(error) = data["error"].as_str() {
        return error.to_owned();
    }
    match output {
        Value::Array(items) => format!("{} entries", items.len()),
        Value::String(text) => format!("{} lines", text.lines().count()),
        Value::Object(object) => match (object.get("exit_code"), object.get("written")) {
            (Some(code), _) => {
                let printed = object.get("stdout").and_then(Value::as_str).unwrap_or_default();
                format!("exit {code}, {}", printed.lines().last().unwrap_or_default())
            }
            (None, Some(written)) => format!("{written} characters written"),
            (None, None) => output.to_string(),
        },
        other => other.to_string(),
    }
}
