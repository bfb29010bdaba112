//! The shell: runs the commands that the configuration names, and no others.
//!
//! A command is a program with its first arguments under a name; the model adds arguments to it, which no shell expands.
//! It starts in the workspace, with an environment given in full, and it ends with everything it started.

mod outcome;
mod thread;

use super::{
    arguments::{Arguments, failed},
    editor::refusal,
};
use futures::future::{Either, select};
use portolan_confine::{CommandSpec, RelPath, Root, root::Directory, run};
use portolan_core::{
    Fut,
    cancel::CancelToken,
    tool::{Tool, ToolClass, ToolError, ToolInvocation, ToolSpec},
    workspace::{WorkingDirectory, Workspace},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write};

/// What the shell may run, and how far.
#[derive(Debug, Clone)]
pub struct ShellOptions {
    /// The commands by the name that the model uses: a program and its first arguments.
    pub commands: BTreeMap<String, Vec<String>>,
    /// How long one command may run.
    pub timeout_ms: u64,
    /// How many characters of each output are kept.
    pub max_output_chars: u64,
    /// The whole environment of the commands; only `PATH` has a default.
    pub environment: BTreeMap<String, String>,
}

impl Default for ShellOptions {
    fn default() -> Self {
        Self {
            commands: BTreeMap::new(),
            timeout_ms: 30_000,
            max_output_chars: 20_000,
            environment: BTreeMap::new(),
        }
    }
}

/// Why there is no shell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShellConfigError {
    /// A command has no program.
    #[error("the command {name:?} names no program")]
    EmptyCommand {
        /// Its name.
        name: String,
    },
    /// A command or its name holds a NUL, which would end it for the kernel.
    #[error("the command {name:?} has a NUL")]
    NulInCommand {
        /// Its name.
        name: String,
    },
    /// A variable has no name, a name with `=`, or a NUL.
    #[error("the variable {name:?} is not valid")]
    Variable {
        /// Its name.
        name: String,
    },
    /// Commands would have no time.
    #[error("the timeout of commands is zero")]
    ZeroTimeout,
    /// No output would be kept.
    #[error("the output limit of commands is zero")]
    ZeroOutput,
}

/// The tool `shell`.
///
/// A command runs on a thread of its own, so that waiting for it blocks no executor. Setting the invocation's cancel
/// switch ends the command, and the call returns when everything it started is gone. Dropping the call ends it as well;
/// the thread sees to that, and whoever wants to be sure that nothing writes any more sets the switch and waits instead.
#[derive(Debug, Clone)]
pub struct Shell {
    options: ShellOptions,
    max_output_chars: usize,
}

impl Shell {
    /// Checks the options.
    pub fn new(options: ShellOptions) -> Result<Self, ShellConfigError> {
        for (name, command) in &options.commands {
            let name = || name.clone();
            if command.first().is_none_or(String::is_empty) {
                return Err(ShellConfigError::EmptyCommand { name: name() });
            }
            if command.iter().any(|part| part.contains('\0')) {
                return Err(ShellConfigError::NulInCommand { name: name() });
            }
        }
        let is_wrong =
            |name: &str, value: &str| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0');
        if let Some((name, _)) = options
            .environment
            .iter()
            .find(|(name, value)| is_wrong(name, value))
        {
            return Err(ShellConfigError::Variable { name: name.clone() });
        }
        if options.timeout_ms == 0 {
            return Err(ShellConfigError::ZeroTimeout);
        }
        if options.max_output_chars == 0 {
            return Err(ShellConfigError::ZeroOutput);
        }
        // More than can be addressed is as good as no limit.
        let max_output_chars = usize::try_from(options.max_output_chars).unwrap_or(usize::MAX);
        Ok(Self {
            options,
            max_output_chars,
        })
    }

    /// Makes a command of the model's arguments. Nothing is started yet.
    fn prepare<'a>(
        &self,
        arguments: &'a Value,
        workspace: Option<&dyn Workspace>,
    ) -> Result<(&'a str, CommandSpec), ToolError> {
        let arguments = Arguments::of(arguments)?;
        let name = arguments.required_text("command")?;
        let added = arguments.texts("args")?;
        let cwd = arguments.text("cwd")?.unwrap_or(".");
        let Some(command) = self.options.commands.get(name) else {
            return Err(ToolError::Denied(format!("There is no command {name:?}.")));
        };
        let workspace =
            workspace.ok_or_else(|| failed("There is no workspace to run commands in.".to_owned()))?;
        let cwd = workspace.working_directory(cwd).map_err(refusal)?;
        let argv = command.iter().map(String::as_str).chain(added).map(str::to_owned);
        let spec = CommandSpec {
            argv: argv.collect(),
            cwd: opened(cwd)?,
            environment: self.options.environment.clone().into_iter().collect(),
            timeout_ms: self.options.timeout_ms,
            max_output_chars: self.max_output_chars,
        };
        Ok((name, spec))
    }

    fn description(&self) -> String {
        let mut text =
            "Runs a command in the workspace and gives its exit code and the beginning of its output. No \
                        shell expands the arguments, and nothing that the command starts outlives it."
                .to_owned();
        for (name, command) in &self.options.commands {
            let program = command
                .first()
                .map_or("", |program| program.rsplit('/').next().unwrap_or(program));
            let parts: Vec<&str> = std::iter::once(program)
                .chain(command.iter().skip(1).map(String::as_str))
                .collect();
            let _ = write!(text, " {name:?} runs `{}`.", parts.join(" "));
        }
        text
    }
}

/// The open directory. A workspace of another make gives a path, which is opened here.
fn opened(directory: WorkingDirectory) -> Result<Directory, ToolError> {
    match directory.guard.downcast::<Directory>() {
        Ok(directory) => Ok(*directory),
        Err(_guard) => {
            let unopened = || failed("The working directory cannot be opened.".to_owned());
            let root = Root::open(&directory.path).map_err(|_| unopened())?;
            root.directory(&RelPath::root()).map_err(|_| unopened())
        }
    }
}

/// Ends the command when the call is over, however it is over.
struct Stop(CancelToken);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Tool for Shell {
    fn spec(&self) -> ToolSpec {
        let mut command = json!({"type": "string"});
        if !self.options.commands.is_empty() {
            // An empty `enum` is no valid schema for every provider.
            command["enum"] = self.options.commands.keys().map(String::as_str).collect();
        }
        ToolSpec {
            name: "shell".to_owned(),
            description: self.description(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "command": command,
                    "args": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Arguments to add to the command's own.",
                    },
                    "cwd": {
                        "type": "string",
                        "description": "The directory to run in, relative to the root of the workspace. The default is \".\", the root.",
                    },
                },
                "required": ["command"],
                "additionalProperties": false,
            }),
        }
    }

    fn class(&self, _arguments: &Value) -> ToolClass {
        ToolClass::Once
    }

    fn call<'a>(&'a self, invocation: ToolInvocation<'a>) -> Fut<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let (name, spec) = self.prepare(invocation.arguments, invocation.workspace)?;
            let stop = Stop(CancelToken::new());
            let switch = stop.0.clone();
            if invocation.cancel.is_cancelled() {
                // Before the thread begins: a quick command would end before the race below is looked at.
                stop.0.cancel();
            }
            let ended = thread::start(move || run(&spec, &switch))
                .map_err(|_| failed("The command could not be started.".to_owned()))?;
            let ended = match select(ended, invocation.cancel.cancelled()).await {
                Either::Left((ended, _)) => ended,
                Either::Right(((), ended)) => {
                    stop.0.cancel();
                    ended.await
                }
            };
            match ended {
                Ok(result) => outcome::of(name, result),
                Err(_lost) => Err(ToolError::Unknown("Nobody saw how the command ended.".to_owned())),
            }
        })
    }
}
