//! What a run is bound to: fixed before the first model request and never read again from the world.

use portolan_core::{RESULT_TOOL, ids::ExecutionId, limits::Limits, tool::ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;

/// Everything that the loop is bound to. Stored with a durable run, so that a replay reads nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configured {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The task, sent unchanged with every request.
    pub task: String,
    /// The context, sent unchanged with every request.
    #[serde(default)]
    pub context: Value,
    /// The instructions, rendered once.
    #[serde(default)]
    pub instructions: Vec<String>,
    /// What the model is told about the tools, in order; read once.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    /// The JSON Schema of the result.
    pub result_schema: Value,
    /// The bounds of the loop.
    pub limits: Limits,
    /// The cap on output tokens of one call, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

/// Why an execution could not be configured. No model was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// A bound that no execution can have.
    #[error("the limits are not usable: {0}")]
    Limits(&'static str),
    /// No model was given.
    #[error("no model was given")]
    NoModel,
    /// Two tools have one name.
    #[error("more than one tool is named {name:?}")]
    DuplicateTool {
        /// The name.
        name: String,
    },
    /// A tool has the name under which results are submitted.
    #[error("the tool name {RESULT_TOOL:?} is reserved for submitting the result")]
    ReservedTool,
    /// A name that providers refuse.
    #[error("the tool name {name:?} is not 1 to 64 of the characters a-z A-Z 0-9 _ -")]
    ToolName {
        /// The name.
        name: String,
    },
    /// A tool whose arguments are described by something that is no JSON Schema object.
    #[error("the input schema of the tool {name:?} is no JSON object")]
    ToolSchema {
        /// The tool.
        name: String,
    },
    /// A result schema that cannot be used.
    #[error("the result schema cannot be used: {reason}")]
    ResultSchema {
        /// What is wrong with it.
        reason: String,
    },
    /// The context cannot be written as JSON.
    #[error("the context cannot be written as JSON: {reason}")]
    Context {
        /// Why.
        reason: String,
    },
    /// An instruction could not be rendered.
    #[error("instruction {position} cannot be rendered: {reason}")]
    Instruction {
        /// Its place, from 1.
        position: usize,
        /// Why.
        reason: String,
    },
    /// A tool could not say what it is.
    #[error("a tool cannot be configured: {reason}")]
    Tool {
        /// Why.
        reason: String,
    },
    /// The first look at the workspace failed.
    #[error("the workspace cannot be read")]
    Workspace(#[source] portolan_core::workspace::WorkspaceError),
}

/// The longest tool name that every provider accepts.
const MAX_TOOL_NAME_CHARS: usize = 64;

impl Configured {
    /// Says what makes this configuration unusable, if anything.
    pub fn check(&self) -> Result<(), ConfigurationError> {
        if let Some(refusal) = self.limits.refusal() {
            return Err(ConfigurationError::Limits(refusal));
        }
        let mut seen = HashSet::with_capacity(self.tools.len());
        for tool in &self.tools {
            let name = tool.name.as_str();
            if name == RESULT_TOOL {
                return Err(ConfigurationError::ReservedTool);
            }
            if !is_tool_name(name) {
                return Err(ConfigurationError::ToolName {
                    name: name.to_owned(),
                });
            }
            if !seen.insert(name) {
                return Err(ConfigurationError::DuplicateTool {
                    name: name.to_owned(),
                });
            }
            if !tool.input_schema.is_object() {
                return Err(ConfigurationError::ToolSchema {
                    name: name.to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn is_tool_name(name: &str) -> bool {
    let plain = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    plain && !name.is_empty() && name.len() <= MAX_TOOL_NAME_CHARS
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with_tools(names: &[&str]) -> Configured {
        let tools = names.iter().map(|name| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        });
        Configured {
            execution_id: ExecutionId::from_bytes([1; 16]),
            task: "t".to_owned(),
            context: Value::Null,
            instructions: Vec::new(),
            tools: tools.collect(),
            result_schema: json!({}),
            limits: Limits::default(),
            max_output_tokens: None,
        }
    }

    #[test]
    fn tool_names_are_those_that_every_provider_accepts() {
        let longest = "x".repeat(64);
        assert!(with_tools(&["a", "A", "a-b_9", &longest]).check().is_ok());
        for bad in ["", "a.b", "a b", "é", &"x".repeat(65)] {
            let refused = with_tools(&[bad]).check();
            assert!(
                matches!(refused, Err(ConfigurationError::ToolName { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn duplicate_and_reserved_names_are_refused() {
        let duplicate = with_tools(&["a", "b", "a"]).check();
        assert!(matches!(duplicate, Err(ConfigurationError::DuplicateTool { name }) if name == "a"));
        let reserved = with_tools(&["final_result"]).check();
        assert!(matches!(reserved, Err(ConfigurationError::ReservedTool)));
    }

    #[test]
    fn limits_without_a_model_call_are_refused() {
        let mut configured = with_tools(&[]);
        configured.limits.model_calls = 0;
        assert!(matches!(configured.check(), Err(ConfigurationError::Limits(_))));
    }
}
