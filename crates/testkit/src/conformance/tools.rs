//! Tools that follow a script.

use super::{
    scenario::{Behavior, ScriptedToolPart},
    stage::{Effects, panic_as_scripted},
};
use portolan_core::{
    Fut,
    tool::{Tool, ToolClass, ToolError, ToolInvocation, ToolSpec},
};
use serde_json::{Value, json};

/// A tool that follows a script.
#[derive(Debug)]
pub(super) struct ScriptedTool {
    pub(super) part: ScriptedToolPart,
    pub(super) effects: Effects,
}

impl Tool for ScriptedTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.part.name.clone(),
            description: "Follows a script.".to_owned(),
            input_schema: json!({"type": "object"}),
        }
    }

    /// Its outcome never depends on how often it ran.
    fn class(&self, _arguments: &Value) -> ToolClass {
        ToolClass::Idempotent
    }

    fn call<'a>(&'a self, invocation: ToolInvocation<'a>) -> Fut<'a, Result<Value, ToolError>> {
        let part = &self.part;
        self.effects.happen(part.cancel, part.advance_clock_ms);
        let outcome = match part.behavior {
            Behavior::Echo => Ok(invocation.arguments.clone()),
            Behavior::Return => Ok(part.value.clone()),
            Behavior::Fail => Err(ToolError::Failed(part.message.clone())),
            Behavior::Deny => Err(ToolError::Denied(part.message.clone())),
            Behavior::Panic => panic_as_scripted(&part.message),
        };
        Box::pin(std::future::ready(outcome))
    }
}
