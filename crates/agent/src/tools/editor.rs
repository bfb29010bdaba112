//! The editor: lists, reads and writes the text files of the workspace.

use super::arguments::{Arguments, failed};
use portolan_core::{
    Fut,
    tool::{Tool, ToolClass, ToolError, ToolInvocation, ToolSpec},
    workspace::{Workspace, WorkspaceError},
};
use serde_json::{Value, json};

/// The tool `editor`. What it may do is up to the workspace's policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Editor;

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation<'a> {
    List { path: &'a str },
    Read { path: &'a str },
    Write { path: &'a str, content: &'a str },
}

impl<'a> Operation<'a> {
    fn parse(arguments: &'a Value) -> Result<Self, ToolError> {
        let arguments = Arguments::of(arguments)?;
        let operation = arguments.required_text("operation")?;
        let path = arguments.text("path")?.unwrap_or(".");
        match operation {
            "list" => Ok(Self::List { path }),
            "read" => Ok(Self::Read { path }),
            "write" => {
                let content = arguments.required_text("content")?;
                Ok(Self::Write { path, content })
            }
            other => Err(failed(format!(
                "There is no operation {other:?}; there are list, read and write."
            ))),
        }
    }

    fn run(self, workspace: &dyn Workspace) -> Result<Value, WorkspaceError> {
        match self {
            Self::List { path } => workspace.list(path).map(|paths| json!(paths)),
            Self::Read { path } => workspace.read(path).map(Value::String),
            Self::Write { path, content } => {
                workspace.write(path, content)?;
                Ok(json!({"path": path, "written": content.chars().count()}))
            }
        }
    }
}

impl Tool for Editor {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "editor".to_owned(),
            description: "Works on the text files of the workspace. \"list\" gives the paths of all files at or below \
                          a path, sorted. \"read\" gives the whole text of a file. \"write\" creates a file or \
                          replaces its whole text, makes the directories it needs, and tells how many characters it \
                          wrote. Paths are relative to the root of the workspace; a \"..\" part is refused."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "operation": {"type": "string", "enum": ["list", "read", "write"]},
                    "path": {
                        "type": "string",
                        "description": "Relative, with \"/\". The default is \".\", the root, which can only be listed.",
                    },
                    "content": {
                        "type": "string",
                        "description": "The whole new text. Needed by write, and by nothing else.",
                    },
                },
                "required": ["operation"],
                "additionalProperties": false,
            }),
        }
    }

    fn class(&self, arguments: &Value) -> ToolClass {
        match Operation::parse(arguments) {
            Ok(Operation::Write { .. }) => ToolClass::Idempotent,
            // Arguments that are refused change nothing, however often.
            Ok(Operation::List { .. } | Operation::Read { .. }) | Err(_) => ToolClass::Pure,
        }
    }

    fn call<'a>(&'a self, invocation: ToolInvocation<'a>) -> Fut<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let operation = Operation::parse(invocation.arguments)?;
            let workspace = invocation
                .workspace
                .ok_or_else(|| failed("There is no workspace.".to_owned()))?;
            operation.run(workspace).map_err(refusal)
        })
    }
}

/// What the tool answers if the workspace refuses.
pub(super) fn refusal(error: WorkspaceError) -> ToolError {
    match error {
        WorkspaceError::Denied(reason) => ToolError::Denied(reason),
        WorkspaceError::Failed(reason) => ToolError::Failed(reason),
    }
}
