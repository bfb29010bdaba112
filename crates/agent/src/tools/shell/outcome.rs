//! How a command ended, as the model is told.

use portolan_confine::{
    CommandOutput, RunError,
    process::{BoundedText, Captured},
};
use portolan_core::tool::ToolError;
use serde_json::{Value, json};

/// How much of each output an error carries.
const ERROR_CHARS: usize = 2_000;

/// The output or the error of the tool. The command is called by its name, never by the program's place on the host.
pub(super) fn of(name: &str, result: Result<CommandOutput, RunError>) -> Result<Value, ToolError> {
    let error = match result {
        Ok(CommandOutput { exit, captured }) => {
            return Ok(json!({
                "command": name,
                "exit_code": exit.code(),
                "stdout": captured.stdout.text,
                "stderr": captured.stderr.text,
                "stdout_truncated": captured.stdout.truncated,
                "stderr_truncated": captured.stderr.truncated,
            }));
        }
        Err(error) => error,
    };
    let text = match error {
        RunError::Invalid(reason) => format!("The command {name:?} cannot be run like that: {reason}."),
        RunError::ProgramNotFound { .. } => format!("The program of the command {name:?} was not found."),
        RunError::Spawn(cause) => format!("The command {name:?} could not be started: {cause}."),
        RunError::TimedOut { timeout_ms, captured } => with_output(
            format!("The command {name:?} was ended after {timeout_ms} ms."),
            &captured,
        ),
        RunError::Cancelled { captured } => with_output(
            format!("The command {name:?} was cancelled and ended."),
            &captured,
        ),
        RunError::Watch(cause) => {
            format!("The command {name:?} could not be watched and was ended: {cause}.")
        }
        RunError::Survivors { count } => {
            return Err(ToolError::Unknown(format!(
                "{count} processes of the command {name:?} could not be ended and may still work."
            )));
        }
    };
    Err(ToolError::Failed(text))
}

/// A command that was ended may have said why it took so long.
fn with_output(mut text: String, captured: &Captured) -> String {
    for (stream, output) in [("stdout", &captured.stdout), ("stderr", &captured.stderr)] {
        if !output.text.is_empty() {
            text.push_str(&format!("\n{stream} until then:\n{}", start_of(output)));
        }
    }
    text
}

fn start_of(output: &BoundedText) -> &str {
    let cut = output.text.char_indices().nth(ERROR_CHARS);
    cut.map_or(output.text.as_str(), |(at, _)| &output.text[..at])
}
