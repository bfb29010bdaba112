//! Configuration: everything that is fixed before the model is asked for the first time.

use super::Agent;
use crate::{
    codec::SchemaError,
    driver::{World, caught_now},
    execution::ExecutionError,
    machine::{ConfigurationError, Configured},
};
use portolan_core::{
    ids::ExecutionId,
    manifest::Manifest,
    tool::{Tool, ToolSpec},
    workspace::WorkspaceError,
};
use serde_json::Value;

/// A configuration that has begun: the time runs from here.
pub(super) struct Begun {
    pub(super) execution_id: ExecutionId,
    deadline_us: Option<u64>,
}

/// Draws the id and starts the clock.
pub(super) fn begin(agent: &Agent<'_>) -> Begun {
    let wall_time_us = agent.limits.wall_time_ms.map(|ms| ms.saturating_mul(1_000));
    Begun {
        execution_id: agent.entropy.execution_id(agent.clock.now()),
        deadline_us: wall_time_us.map(|us| agent.clock.monotonic_us().saturating_add(us)),
    }
}

impl Begun {
    fn refuse(&self, error: &ConfigurationError) -> ExecutionError {
        ExecutionError::configuration(self.execution_id, error)
    }

    pub(super) fn refuse_schema(&self, error: &SchemaError) -> ExecutionError {
        let reason = error.to_string();
        self.refuse(&ConfigurationError::ResultSchema { reason })
    }

    /// Fixes everything else, in the order in which the lifecycle names it.
    pub(super) fn finish<'a>(
        &self,
        agent: &'a Agent<'a>,
        result_schema: Value,
    ) -> Result<(World<'a>, Configured), ExecutionError> {
        self.fix(agent, result_schema)
            .map_err(|error| self.refuse(&error))
    }

    fn fix<'a>(
        &self,
        agent: &'a Agent<'a>,
        result_schema: Value,
    ) -> Result<(World<'a>, Configured), ConfigurationError> {
        let Some(model) = agent.model else {
            return Err(ConfigurationError::NoModel);
        };
        let tools: Vec<&dyn Tool> = agent
            .tools
            .iter()
            .chain(&agent.resources)
            .map(|tool| tool.as_tool())
            .collect();
        let configured = Configured {
            execution_id: self.execution_id,
            task: agent.task.clone(),
            context: context(agent)?,
            instructions: instructions(agent)?,
            tools: tools.iter().map(|tool| spec(*tool)).collect::<Result<_, _>>()?,
            result_schema,
            limits: agent.limits,
            max_output_tokens: agent.max_output_tokens,
        };
        configured.check()?;
        let world = World {
            model,
            tools,
            workspace: agent.workspace,
            baseline: baseline(agent).map_err(ConfigurationError::Workspace)?,
            cancel: &agent.cancel,
            clock: agent.clock,
            deadline_us: self.deadline_us,
            at_boundary: agent.at_boundary.as_deref(),
        };
        Ok((world, configured))
    }
}

fn context(agent: &Agent<'_>) -> Result<Value, ConfigurationError> {
    match &agent.context {
        Ok(context) => Ok(context.clone()),
        Err(error) => Err(ConfigurationError::Context {
            reason: error.to_string(),
        }),
    }
}

fn instructions(agent: &Agent<'_>) -> Result<Vec<String>, ConfigurationError> {
    let rendered = agent.instructions.iter().enumerate().map(|(place, instruction)| {
        let reason = match caught_now(|| instruction.render()) {
            Ok(Ok(text)) => return Ok(text),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic,
        };
        let position = place + 1;
        Err(ConfigurationError::Instruction { position, reason })
    });
    rendered.collect()
}

/// Asks a tool what it is, for the only time.
fn spec(tool: &dyn Tool) -> Result<ToolSpec, ConfigurationError> {
    caught_now(|| tool.spec()).map_err(|reason| ConfigurationError::Tool { reason })
}

fn baseline(agent: &Agent<'_>) -> Result<Option<Manifest>, WorkspaceError> {
    let Some(workspace) = agent.workspace else {
        return Ok(None);
    };
    let scanned = caught_now(|| workspace.scan()).unwrap_or_else(|panic| Err(WorkspaceError::Failed(panic)));
    scanned.map(Some)
}
