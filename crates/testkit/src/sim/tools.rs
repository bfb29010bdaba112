//! Simulated tools, one of each class, and what turns the definition of an agent into them.

use super::{
    history::{Executed, History},
    time::Time,
};
use crate::random::Random;
use portolan_core::{
    Fut,
    agent::{AgentVersion, WorkspaceSource},
    event::RunQueued,
    failure::RunFailure,
    tool::{Tool, ToolClass, ToolError, ToolInvocation, ToolSpec},
    workspace::{Workspace, WorkspaceError},
};
use portolan_engine::{Configuration, DefinitionPreparer, Equipment, Preparer, WorkspaceHost, ports::Seed};
use portolan_journal::RunRef;
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool that takes a while. It runs in the process of its caller, and dies with it.
#[derive(Debug)]
struct SimTool {
    name: &'static str,
    class: ToolClass,
    time: Time,
    random: Random,
    history: History,
}

impl Tool for SimTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            description: "Takes a while.".to_owned(),
            input_schema: json!({"type": "object"}),
        }
    }

    fn class(&self, _arguments: &Value) -> ToolClass {
        self.class
    }

    fn call<'a>(&'a self, invocation: ToolInvocation<'a>) -> Fut<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let key = invocation.key.map(ToString::to_string).unwrap_or_default();
            self.history.note(format_args!("execute {key}"));
            self.history.inner().executions.push(Executed {
                at_us: self.time.now_us(),
                key,
                class: self.class,
            });
            let takes = self.random.within(1..300);
            self.time.sleep_ms(takes).await;
            Ok(json!("done"))
        })
    }
}

/// The real preparer, with the simulated tools.
pub(super) struct SimPreparer {
    inner: DefinitionPreparer,
    tools: Vec<Arc<dyn Tool>>,
}

impl SimPreparer {
    pub(super) fn new(time: &Time, random: &Random, history: &History) -> Self {
        let tools = [
            ("pure", ToolClass::Pure),
            ("idempotent", ToolClass::Idempotent),
            ("once", ToolClass::Once),
        ];
        let tools = tools.map(|(name, class)| {
            Arc::new(SimTool {
                name,
                class,
                time: time.clone(),
                random: random.clone(),
                history: history.clone(),
            }) as Arc<dyn Tool>
        });
        Self {
            inner: DefinitionPreparer::new(Arc::new(NoWorkspaces)),
            tools: tools.into(),
        }
    }
}

impl Preparer for SimPreparer {
    fn configure(
        &self,
        run: RunRef,
        agent: &AgentVersion,
        queued: &RunQueued,
        tools: &[Arc<dyn Tool>],
    ) -> Result<Configuration, RunFailure> {
        self.inner.configure(run, agent, queued, tools)
    }

    fn equip(&self, run: RunRef, agent: &AgentVersion, queued: &RunQueued) -> Result<Equipment, RunFailure> {
        let mut equipment = self.inner.equip(run, agent, queued)?;
        equipment.tools.extend(self.tools.iter().cloned());
        Ok(equipment)
    }

    fn seed(&self, agent: &AgentVersion, queued: &RunQueued) -> Result<Option<Seed>, RunFailure> {
        self.inner.seed(agent, queued)
    }

    fn discard(&self, run: RunRef) {
        self.inner.discard(run);
    }
}

/// Simulated agents have no files.
struct NoWorkspaces;

impl WorkspaceHost for NoWorkspaces {
    fn open(&self, _run: RunRef, _source: &WorkspaceSource) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        Err(WorkspaceError::Failed(
            "there are no files in a simulation".to_owned(),
        ))
    }

    fn discard(&self, _run: RunRef) {}
}
