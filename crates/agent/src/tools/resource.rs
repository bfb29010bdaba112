//! Read-only material as a tool: `resource_NAME` lists it and reads from it.

use portolan_core::{
    Fut,
    tool::{Tool, ToolClass, ToolError, ToolInvocation, ToolSpec},
    workspace::WorkspaceError,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Read-only material: a directory, texts in memory, or anything else that has paths.
///
/// Paths are relative with `/`; `.` is the root. What a policy hides is neither listed nor read.
pub trait Resource: Send + Sync {
    /// The paths of all files at or below a path, sorted. A path that is not there has none.
    fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError>;

    /// The text of a file.
    fn read(&self, path: &str) -> Result<String, WorkspaceError>;

    /// What the model is told that it is.
    fn description(&self) -> String {
        "Read-only material.".to_owned()
    }
}

impl<R: Resource + ?Sized> Resource for Arc<R> {
    fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError> {
        (**self).list(path)
    }

    fn read(&self, path: &str) -> Result<String, WorkspaceError> {
        (**self).read(path)
    }

    fn description(&self) -> String {
        (**self).description()
    }
}

/// The tool through which a model sees a resource.
#[derive(Debug)]
pub struct ResourceTool<R> {
    name: String,
    resource: R,
}

impl<R: Resource> ResourceTool<R> {
    /// Names the tool `resource_NAME`.
    pub fn new(name: &str, resource: R) -> Self {
        Self {
            name: format!("resource_{name}"),
            resource,
        }
    }

    fn answer(&self, arguments: &Value) -> Result<Value, ToolError> {
        let failed = |text: &str| ToolError::Failed(text.to_owned());
        let arguments = arguments
            .as_object()
            .ok_or_else(|| failed("The arguments are no object."))?;
        let operation = text(arguments, "operation")?.ok_or_else(|| failed("\"operation\" is missing."))?;
        let inner = arguments.get("arguments").and_then(Value::as_object);
        let path = text(
            inner.ok_or_else(|| failed("\"arguments\" is no object."))?,
            "path",
        )?;
        match (operation, path) {
            ("list", path) => {
                let paths = self.resource.list(path.unwrap_or(".")).map_err(refusal)?;
                Ok(json!(paths))
            }
            ("read", Some(path)) => self.resource.read(path).map(Value::String).map_err(refusal),
            ("read", None) => Err(failed("\"path\" is missing.")),
            (other, _) => Err(ToolError::Failed(format!(
                "There is no operation {other:?}; there are list and read."
            ))),
        }
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, ToolError> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ToolError::Failed(format!("{name:?} is no string."))),
    }
}

fn refusal(error: WorkspaceError) -> ToolError {
    match error {
        WorkspaceError::Denied(reason) => ToolError::Denied(reason),
        WorkspaceError::Failed(reason) => ToolError::Failed(reason),
    }
}

impl<R: Resource> Tool for ResourceTool<R> {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: format!(
                "{} \"list\" gives the paths of all files at or below a path, \"read\" gives the text of a file.",
                self.resource.description()
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "operation": {"type": "string", "enum": ["list", "read"]},
                    "arguments": {
                        "type": "object",
                        "properties": {
                            "path": {"type": "string", "description": "Relative, with \"/\". For list the root is the default."},
                        },
                        "additionalProperties": false,
                    },
                },
                "required": ["operation", "arguments"],
                "additionalProperties": false,
            }),
        }
    }

    fn class(&self, _arguments: &Value) -> ToolClass {
        ToolClass::Pure
    }

    fn call<'a>(&'a self, invocation: ToolInvocation<'a>) -> Fut<'a, Result<Value, ToolError>> {
        Box::pin(std::future::ready(self.answer(invocation.arguments)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Resource for One {
        fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError> {
            Ok(vec![format!("{path}/a.md")])
        }

        fn read(&self, path: &str) -> Result<String, WorkspaceError> {
            Err(WorkspaceError::Denied(format!("{path} is hidden")))
        }
    }

    #[test]
    fn arguments_are_taken_strictly() {
        let tool = ResourceTool::new("docs", One);
        assert_eq!(tool.spec().name, "resource_docs");
        let listed = tool.answer(&json!({"operation": "list", "arguments": {}}));
        assert_eq!(listed, Ok(json!(["./a.md"])));
        let denied = tool.answer(&json!({"operation": "read", "arguments": {"path": "a"}}));
        assert_eq!(denied, Err(ToolError::Denied("a is hidden".to_owned())));
        for bad in [
            json!(null),
            json!({"operation": "list"}),
            json!({"operation": "list", "arguments": []}),
            json!({"operation": 1, "arguments": {}}),
            json!({"operation": "read", "arguments": {}}),
            json!({"operation": "read", "arguments": {"path": 1}}),
            json!({"operation": "write", "arguments": {"path": "a"}}),
        ] {
            assert!(matches!(tool.answer(&bad), Err(ToolError::Failed(_))), "{bad}");
        }
    }
}
