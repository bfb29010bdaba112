//! Instructions: what the model is told beside the task, rendered once per execution.

use crate::ambient;
use std::{error::Error, fmt, path::PathBuf};

/// Why an instruction could not be rendered.
pub type InstructionError = Box<dyn Error + Send + Sync>;

/// A standing instruction. It is rendered once, during configuration; a failure means that no model is asked.
pub trait Instruction: Send + Sync {
    /// Gives the text.
    fn render(&self) -> Result<String, InstructionError>;
}

impl Instruction for String {
    fn render(&self) -> Result<String, InstructionError> {
        Ok(self.clone())
    }
}

/// The exact text of a file.
#[derive(Debug, Clone)]
pub(crate) struct File(pub(crate) PathBuf);

impl Instruction for File {
    fn render(&self) -> Result<String, InstructionError> {
        let text = ambient::read_text(&self.0);
        text.map_err(|error| format!("{}: {error}", self.0.display()).into())
    }
}

/// What a function gives.
pub(crate) struct Function<F>(pub(crate) F);

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

impl<F, E> Instruction for Function<F>
where
    F: Fn() -> Result<String, E> + Send + Sync,
    E: Into<InstructionError>,
{
    fn render(&self) -> Result<String, InstructionError> {
        (self.0)().map_err(Into::into)
    }
}
