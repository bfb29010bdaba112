use crate::root::Directory;

/// The `PATH` of a command whose environment names none.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The most bytes that the arguments and the environment of a command may have together.
pub const MAX_COMMAND_BYTES: usize = 1024 * 1024;
/// The most bytes of one argument or one variable; the kernel takes no more.
const MAX_STRING_BYTES: usize = 128 * 1024 - 1;

/// A command to run.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// The program and its arguments. They are passed as they are; no shell sees them.
    pub argv: Vec<String>,
    /// The directory to run in.
    pub cwd: Directory,
    /// The whole environment. Nothing is inherited; only `PATH` has a default.
    pub environment: Vec<(String, String)>,
    /// How long the command may run.
    pub timeout_ms: u64,
    /// How many characters of each output are kept.
    pub max_output_chars: usize,
}

/// Why a command is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCommand {
    /// It names no program.
    #[error("no program is named")]
    Empty,
    /// An argument or a variable holds a NUL, which would end it for the kernel.
    #[error("an argument or a variable has a NUL")]
    Nul,
    /// A variable has no name, or a name with `=`.
    #[error("a variable has an invalid name")]
    VariableName,
    /// The arguments and the environment are too long.
    #[error("the arguments and the environment are too long")]
    TooLong,
}

/// A command that passed its checks.
pub(super) struct Valid<'a> {
    pub(super) program: &'a str,
    pub(super) arguments: &'a [String],
    pub(super) path: &'a str,
}

impl CommandSpec {
    pub(super) fn check(&self) -> Result<Valid<'_>, InvalidCommand> {
        let Some((program, arguments)) = self.argv.split_first() else {
            return Err(InvalidCommand::Empty);
        };
        if program.is_empty() {
            return Err(InvalidCommand::Empty);
        }
        if self
            .environment
            .iter()
            .any(|(name, _)| name.is_empty() || name.contains('='))
        {
            return Err(InvalidCommand::VariableName);
        }
        let variables = self.environment.iter().flat_map(|(name, value)| [name, value]);
        if self.argv.iter().chain(variables).any(|text| text.contains('\0')) {
            return Err(InvalidCommand::Nul);
        }
        let lengths = || {
            let variables = self
                .environment
                .iter()
                .map(|(name, value)| name.len() + value.len() + 1);
            self.argv.iter().map(String::len).chain(variables)
        };
        if lengths().any(|length| length > MAX_STRING_BYTES) || lengths().sum::<usize>() > MAX_COMMAND_BYTES {
            return Err(InvalidCommand::TooLong);
        }
        let path = self.environment.iter().rev().find(|(name, _)| name == "PATH");
        Ok(Valid {
            program,
            arguments,
            path: path.map_or(DEFAULT_PATH, |(_, value)| value),
        })
    }
}
