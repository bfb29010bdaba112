//! The asynchronous core: one future that answers the machine until it is done.

use super::{World, bound_output, caught, caught_now};
use crate::machine::{Check, Done, NeedEvidence, NeedModel, NeedTool, Step, Unanswered};
use portolan_core::{
    artifact::Artifact,
    failure::{FailureKind, RunFailure},
    model::ModelReply,
    tool::{ToolError, ToolInvocation},
};
use serde_json::Value;

/// Drives an execution to its end.
pub(crate) async fn drive(world: &World<'_>, start: Check) -> Done {
    let mut step = Step::Check(start);
    loop {
        step = match step {
            Step::Check(check) => {
                let verdict = world.judge(check.boundary(), check.ordinal());
                check.verdict(verdict, world.now())
            }
            Step::Model(need) => {
                let reply = ask(world, &need).await;
                need.reply(reply, world.now())
            }
            Step::Tool(need) => {
                let outcome = invoke(world, &need).await;
                need.outcome(Ok(outcome), world.now())
            }
            Step::Evidence(need) => end(world, need),
            Step::Done(done) => return done,
        };
    }
}

/// Asks the model once: embedded drivers never retry.
async fn ask(world: &World<'_>, need: &NeedModel) -> Result<ModelReply, Unanswered> {
    let message = match caught(|| world.model.call(None, need.request())).await {
        Ok(Ok(reply)) => return Ok(reply),
        Ok(Err(error)) => error.message,
        Err(panic) => panic,
    };
    Err(Unanswered::Failed(RunFailure::new(
        FailureKind::Provider,
        message,
    )))
}

async fn invoke(world: &World<'_>, need: &NeedTool) -> Result<Value, ToolError> {
    let Some(tool) = world.tools.get(need.place()) else {
        return Err(ToolError::Unavailable("the tool is not here".to_owned()));
    };
    let invocation = ToolInvocation {
        call_id: &need.call().id,
        arguments: need.arguments(),
        key: None,
        workspace: world.workspace,
        cancel: world.cancel,
    };
    match caught(|| tool.call(invocation)).await {
        Ok(outcome) => outcome.map(bound_output),
        Err(panic) => Err(ToolError::Failed(panic)),
    }
}

fn end(world: &World<'_>, need: NeedEvidence) -> Step {
    let found = artifacts(world);
    Step::Done(need.artifacts(found, world.now()))
}

fn artifacts(world: &World<'_>) -> Result<Vec<Artifact>, String> {
    let (Some(workspace), Some(baseline)) = (world.workspace, &world.baseline) else {
        return Ok(Vec::new());
    };
    match caught_now(|| workspace.scan()) {
        Ok(Ok(now)) => Ok(now.artifacts_since(baseline)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic),
    }
}
