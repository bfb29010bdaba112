//! The expression with which a program runs an agent.

mod configure;

use crate::{
    ambient::{SystemClock, SystemEntropy},
    codec::{SchemaCodec, TypedCodec},
    driver::{AtBoundary, asynchronous, blocking},
    execution::{Execution, ExecutionError},
    instruction::{self, Instruction, InstructionError},
    machine,
    tools::resource::{Resource, ResourceTool},
};
use portolan_core::{
    cancel::CancelToken,
    entropy::Entropy,
    failure::{FailureKind, RunFailure},
    limits::Limits,
    model::Model,
    time::Clock,
    tool::Tool,
    trace::Boundary,
    workspace::Workspace,
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{fmt, marker::PhantomData, path::PathBuf, sync::Arc};

/// Begins an agent call: a task, to which the model, the tools, the bounds and the result type are added.
pub fn agent<'a>(task: impl Into<String>) -> Agent<'a> {
    Agent {
        task: task.into(),
        model: None,
        context: Ok(Value::Null),
        instructions: Vec::new(),
        tools: Vec::new(),
        resources: Vec::new(),
        workspace: None,
        limits: Limits::default(),
        max_output_tokens: None,
        cancel: CancelToken::new(),
        clock: &SystemClock,
        entropy: &SystemEntropy,
        at_boundary: None,
    }
}

/// A tool of a call: its own, or shared with others.
enum Held<'a> {
    Own(Box<dyn Tool + 'a>),
    Shared(Arc<dyn Tool>),
}

impl Held<'_> {
    fn as_tool(&self) -> &dyn Tool {
        match self {
            Self::Own(tool) => &**tool,
            Self::Shared(tool) => &**tool,
        }
    }
}

/// An agent call that is being put together. Nothing is checked before it runs.
#[must_use = "an agent does nothing before it runs"]
pub struct Agent<'a> {
    task: String,
    model: Option<&'a dyn Model>,
    context: Result<Value, serde_json::Error>,
    instructions: Vec<Box<dyn Instruction + 'a>>,
    tools: Vec<Held<'a>>,
    resources: Vec<Held<'a>>,
    workspace: Option<&'a dyn Workspace>,
    limits: Limits,
    max_output_tokens: Option<u32>,
    cancel: CancelToken,
    clock: &'a dyn Clock,
    entropy: &'a dyn Entropy,
    at_boundary: Option<Box<AtBoundary<'a>>>,
}

impl fmt::Debug for Agent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("task", &self.task)
            .field("tools", &self.tools.len())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<'a> Agent<'a> {
    /// Takes the model that is asked.
    pub fn model(mut self, model: &'a dyn Model) -> Self {
        self.model = Some(model);
        self
    }

    /// Takes the context, which is sent with every request.
    pub fn context(mut self, context: impl Serialize) -> Self {
        self.context = serde_json::to_value(context);
        self
    }

    /// Adds an instruction.
    pub fn instruction(self, text: impl Into<String>) -> Self {
        self.instruction_from(text.into())
    }

    /// Adds an instruction that is the exact text of a file, read once when the execution is configured.
    pub fn instruction_file(self, path: impl Into<PathBuf>) -> Self {
        self.instruction_from(instruction::File(path.into()))
    }

    /// Adds an instruction that a function renders once when the execution is configured.
    pub fn instruction_fn<F, E>(self, render: F) -> Self
    where
        F: Fn() -> Result<String, E> + Send + Sync + 'a,
        E: Into<InstructionError> + 'a,
    {
        self.instruction_from(instruction::Function(render))
    }

    /// Adds an instruction of any kind.
    pub fn instruction_from(mut self, instruction: impl Instruction + 'a) -> Self {
        self.instructions.push(Box::new(instruction));
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool + 'a) -> Self {
        self.tools.push(Held::Own(Box::new(tool)));
        self
    }

    /// Adds tools that are shared with others, such as those of a server.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools.into_iter().map(Held::Shared));
        self
    }

    /// Adds read-only material as the tool `resource_NAME`. Such tools come after all others.
    pub fn resource(mut self, name: &str, resource: impl Resource + 'a) -> Self {
        let tool = ResourceTool::new(name, resource);
        self.resources.push(Held::Own(Box::new(tool)));
        self
    }

    /// Takes the files that the execution works on.
    pub fn workspace(mut self, workspace: &'a dyn Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Takes the bounds.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Caps the output tokens of each model call.
    pub const fn max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Takes the switch that stops the execution at its next boundary.
    pub fn cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Takes another clock than the system's.
    pub fn clock(mut self, clock: &'a dyn Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Takes another source of randomness than the system's.
    pub fn entropy(mut self, entropy: &'a dyn Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Calls a function just before each boundary is judged, with the number of that check: for showing progress.
    pub fn at_boundary(mut self, tell: impl Fn(Boundary, u64) + Send + Sync + 'a) -> Self {
        self.at_boundary = Some(Box::new(tell));
        self
    }

    /// Asks for a result of a Rust type.
    pub const fn returns<T: DeserializeOwned + JsonSchema + 'static>(self) -> Call<'a, T> {
        Call {
            agent: self,
            returns: Returns::Type(PhantomData),
        }
    }

    /// Asks for a result that satisfies a JSON Schema.
    pub const fn returns_schema(self, schema: Value) -> Call<'a, Value> {
        Call {
            agent: self,
            returns: Returns::Schema(schema),
        }
    }
}

enum Returns<T> {
    Type(PhantomData<fn() -> T>),
    Schema(Value),
}

/// An agent call with its result type: ready to run.
#[must_use = "an agent does nothing before it runs"]
pub struct Call<'a, T> {
    agent: Agent<'a>,
    returns: Returns<T>,
}

impl<T> fmt::Debug for Call<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Call").field(&self.agent).finish()
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> Call<'_, T> {
    /// Runs the agent on the calling thread.
    ///
    /// It blocks the thread until the execution ends. Do not call it from a task of an async runtime, where it would keep
    /// the runtime's thread from its other tasks, and where a model that brings its own runtime refuses to be waited for;
    /// use [`run_async`](Self::run_async) there.
    pub fn run(self) -> Result<Execution<T>, ExecutionError> {
        blocking::wait(self.run_async())
    }

    /// Runs the agent as a future, on any runtime or none. Dropping the future abandons the execution.
    pub async fn run_async(self) -> Result<Execution<T>, ExecutionError> {
        let Self { agent, returns } = self;
        match returns {
            Returns::Type(_) => agent.run_typed::<T>().await,
            Returns::Schema(schema) => {
                let execution = agent.run_schema(schema).await?;
                decode(execution, |value| {
                    T::deserialize(value).map_err(|error| error.to_string())
                })
            }
        }
    }
}

impl Agent<'_> {
    async fn run_typed<T: DeserializeOwned + JsonSchema + 'static>(
        self,
    ) -> Result<Execution<T>, ExecutionError> {
        let begun = configure::begin(&self);
        let codec = match TypedCodec::<T>::new() {
            Ok(codec) => Arc::new(codec),
            Err(error) => return Err(begun.refuse_schema(&error)),
        };
        let schema = codec.schema().clone();
        let execution = self.drive(begun, schema, Arc::clone(&codec) as _).await?;
        decode(execution, |value| {
            codec.decode(value).map_err(|violation| violation.to_string())
        })
    }

    async fn run_schema(self, schema: Value) -> Result<Execution<Value>, ExecutionError> {
        let begun = configure::begin(&self);
        match SchemaCodec::new(schema.clone()) {
            Ok(codec) => self.drive(begun, schema, Arc::new(codec)).await,
            Err(error) => Err(begun.refuse_schema(&error)),
        }
    }

    async fn drive(
        &self,
        begun: configure::Begun,
        schema: Value,
        codec: Arc<dyn machine::ResultCodec>,
    ) -> Result<Execution<Value>, ExecutionError> {
        let (world, configured) = begun.finish(self, schema)?;
        let start = machine::start(Arc::new(configured), codec, self.clock.now());
        let done = asynchronous::drive(&world, start).await;
        Execution::of(begun.execution_id, done.into_parts())
    }
}

/// Decodes a value that the codec accepted. A type that decodes the same value differently each time is a defect of that
/// type; it costs the value, never the evidence.
fn decode<T>(
    execution: Execution<Value>,
    decode: impl FnOnce(&Value) -> Result<T, String>,
) -> Result<Execution<T>, ExecutionError> {
    match decode(&execution.value) {
        Ok(value) => Ok(execution.with(value)),
        Err(reason) => {
            let message = format!("the accepted result cannot be decoded: {reason}");
            Err(execution.spoiled(RunFailure::new(FailureKind::Internal, message)))
        }
    }
}
