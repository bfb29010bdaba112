//! The bounded agent loop, for embedding: a task, a model, tools and a result type in; a typed value, or an error with its
//! evidence, out.
//!
//! ```
//! use portolan_agent::{agent, scripted, tool_fn};
//! use portolan_core::limits::Limits;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Query {
//!     text: String,
//! }
//!
//! #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
//! struct Plan {
//!     steps: Vec<String>,
//! }
//!
//! // A model that follows a script stands in for a provider.
//! let model = scripted::ScriptedModel::new([
//!     scripted::call("c1", "search", serde_json::json!({"text": "parser"})),
//!     scripted::result(serde_json::json!({"steps": ["read the parser", "write a test"]})),
//! ]);
//!
//! let execution = agent("Plan the change")
//!     .model(&model)
//!     .context(serde_json::json!({"language": "Rust"}))
//!     .instruction("At most three steps.")
//!     .tool(tool_fn("search", "Searches the code.", |query: Query| {
//!         Ok::<_, String>(vec![format!("src/{}.rs", query.text)])
//!     }))
//!     .limits(Limits { model_calls: 5, ..Limits::default() })
//!     .returns::<Plan>()
//!     .run()?;
//!
//! assert_eq!(execution.value.steps.len(), 2);
//! assert_eq!(execution.usage.tool_calls, 1);
//! assert_eq!(execution.trace.last().map(|event| event.kind.name()), Some("execution.completed"));
//! # Ok::<(), portolan_agent::ExecutionError>(())
//! ```
//!
//! The loop itself is the [`machine`], which does no input or output and has three drivers: the blocking and the
//! asynchronous one here, and the durable one of the engine. So a task behaves the same in a unit test, in a script and on
//! a server, with the same trace.

#![warn(missing_docs)]

pub mod ambient;
mod builder;
pub mod codec;
mod driver;
mod execution;
mod instruction;
pub mod machine;
pub mod scripted;
pub mod tools;
pub mod workspace;

pub use builder::{Agent, Call, agent};
pub use driver::{MAX_OUTPUT_BYTES, bound_output};
pub use execution::{Evidence, Execution, ExecutionError};
pub use instruction::{Instruction, InstructionError};
pub use tools::{
    function::{FunctionTool, tool_fn},
    resource::Resource,
};
