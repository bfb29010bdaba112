//! Reads answers back from the journal. Both the driver and the trace give them to the machine.

use portolan_agent::machine::{Stop, Unanswered};
use portolan_core::{
    event::{StepCompleted, StepFailed, StepFailure, StepStatus},
    failure::{FailureKind, RunFailure},
    ids::StepId,
    model::ModelReply,
    tool::ToolError,
};
use serde_json::Value;

/// What came of an invocation.
pub(crate) type Outcome = Result<Value, ToolError>;

/// The reply of an answered model step.
pub(crate) fn recorded_reply(done: &StepCompleted) -> Result<ModelReply, String> {
    let output = done
        .output
        .as_ref()
        .ok_or("an answered model step has no output")?;
    let reply: ModelReply = serde_json::from_str(output.get())
        .map_err(|error| format!("the reply of an answered model step cannot be read: {error}"))?;
    Ok(ModelReply {
        usage: done.usage,
        model: done.model.clone(),
        ..reply
    })
}

/// The failure of a step that ended for good; `stop` is what gave it up, if it was given up.
pub(crate) fn recorded_failure(step: StepId, failed: &StepFailed, stop: Stop) -> Unanswered {
    match failed.reason {
        StepFailure::Aborted => Unanswered::Aborted(stop),
        StepFailure::Provider | StepFailure::Unavailable => {
            let failure = RunFailure::new(FailureKind::Provider, failed.message.clone());
            Unanswered::Failed(RunFailure {
                step_id: Some(step),
                ..failure
            })
        }
    }
}

/// The outcome of an answered tool step.
pub(crate) fn recorded_outcome(done: &StepCompleted) -> Result<Outcome, String> {
    let message = || done.error.clone().unwrap_or_default();
    Ok(match done.status {
        StepStatus::Ok => {
            let output = done.output.as_ref().map_or("null", |raw| raw.get());
            let value = serde_json::from_str(output)
                .map_err(|error| format!("the output of an answered tool step cannot be read: {error}"))?;
            Ok(value)
        }
        StepStatus::Error => Err(ToolError::Failed(message())),
        StepStatus::Denied => Err(ToolError::Denied(message())),
        StepStatus::Unavailable => Err(ToolError::Unavailable(message())),
        StepStatus::Unknown => Err(ToolError::Unknown(message())),
    })
}
