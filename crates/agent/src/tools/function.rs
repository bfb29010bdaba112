//! A tool made of a function.

use crate::codec::schema_of;
use portolan_core::{
    Fut,
    tool::{Tool, ToolClass, ToolError, ToolInvocation, ToolSpec},
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{any::Any, fmt, future::Future, marker::PhantomData};

/// Makes a tool of a function, synchronous or asynchronous, that takes one argument type.
///
/// The type's schema is what the model reads; arguments that do not decode into it are an observation and never reach the
/// function. An error of the function is told to the model: a [`ToolError`] as it is, anything else as its text.
///
/// ```
/// use portolan_agent::tool_fn;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Query {
///     /// What to look for.
///     text: String,
/// }
///
/// let search = tool_fn("search", "Searches the catalogue.", |query: Query| {
///     if query.text.is_empty() {
///         return Err("nothing to look for");
///     }
///     Ok(vec![format!("found {}", query.text)])
/// });
/// let fetch = tool_fn("fetch", "Fetches an entry.", async |query: Query| Ok::<_, String>(query.text)).pure();
/// # let _ = (search, fetch);
/// ```
pub fn tool_fn<A, F, M>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: F,
) -> FunctionTool<A, F, M>
where
    A: DeserializeOwned + JsonSchema,
    F: ToolFunction<A, M>,
{
    FunctionTool {
        name: name.into(),
        description: description.into(),
        class: ToolClass::Once,
        function,
        types: PhantomData,
    }
}

/// A tool made of a function. See [`tool_fn`].
pub struct FunctionTool<A, F, M> {
    name: String,
    description: String,
    class: ToolClass,
    function: F,
    types: PhantomData<fn() -> (A, M)>,
}

impl<A, F, M> FunctionTool<A, F, M> {
    /// Declares that the function only looks: an interrupted call may run again.
    #[must_use]
    pub const fn pure(mut self) -> Self {
        self.class = ToolClass::Pure;
        self
    }

    /// Declares that repeating a call leaves the same state: an interrupted call may run again.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.class = ToolClass::Idempotent;
        self
    }
}

impl<A, F, M> fmt::Debug for FunctionTool<A, F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("name", &self.name)
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

impl<A, F, M> Tool for FunctionTool<A, F, M>
where
    A: DeserializeOwned + JsonSchema,
    F: ToolFunction<A, M>,
{
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: schema_of::<A>(),
        }
    }

    fn class(&self, _arguments: &Value) -> ToolClass {
        self.class
    }

    fn call<'a>(&'a self, invocation: ToolInvocation<'a>) -> Fut<'a, Result<Value, ToolError>> {
        match A::deserialize(invocation.arguments) {
            Ok(arguments) => self.function.invoke(arguments),
            Err(error) => {
                let refusal = ToolError::Failed(format!("The arguments are not valid: {error}"));
                Box::pin(std::future::ready(Err(refusal)))
            }
        }
    }
}

/// A function that can be a tool. It is implemented for functions that return a `Result` and for functions that return a
/// future of one; `M` only tells these apart.
pub trait ToolFunction<A, M>: Send + Sync {
    /// Calls the function.
    fn invoke<'a>(&'a self, arguments: A) -> Fut<'a, Result<Value, ToolError>>
    where
        M: 'a;
}

/// Marks functions that return a `Result`.
#[derive(Debug)]
pub struct Returns<R, E>(PhantomData<fn() -> (R, E)>);

/// Marks functions that return a future.
#[derive(Debug)]
pub struct Awaits<Fu, R, E>(PhantomData<fn() -> Fu>, PhantomData<fn() -> (R, E)>);

impl<A, F, R, E> ToolFunction<A, Returns<R, E>> for F
where
    F: Fn(A) -> Result<R, E> + Send + Sync,
    R: Serialize,
    E: fmt::Display + 'static,
{
    fn invoke<'a>(&'a self, arguments: A) -> Fut<'a, Result<Value, ToolError>>
    where
        Returns<R, E>: 'a,
    {
        Box::pin(std::future::ready(encoded(self(arguments))))
    }
}

impl<A, F, Fu, R, E> ToolFunction<A, Awaits<Fu, R, E>> for F
where
    F: Fn(A) -> Fu + Send + Sync,
    Fu: Future<Output = Result<R, E>> + Send,
    R: Serialize,
    E: fmt::Display + 'static,
{
    fn invoke<'a>(&'a self, arguments: A) -> Fut<'a, Result<Value, ToolError>>
    where
        Awaits<Fu, R, E>: 'a,
    {
        let future = self(arguments);
        Box::pin(async move { encoded(future.await) })
    }
}

fn encoded<R: Serialize, E: fmt::Display + 'static>(outcome: Result<R, E>) -> Result<Value, ToolError> {
    match outcome {
        Ok(output) => serde_json::to_value(output)
            .map_err(|error| ToolError::Failed(format!("The output cannot be written as JSON: {error}"))),
        Err(error) => match (&error as &dyn Any).downcast_ref::<ToolError>() {
            Some(error) => Err(error.clone()),
            None => Err(ToolError::Failed(error.to_string())),
        },
    }
}
