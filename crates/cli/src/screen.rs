//! The terminal: data to stdout, talk to stderr, colour only where somebody sees it.

use crate::{args::Global, failure::Failure};
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write as _};

/// The form in which data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// One JSON document.
    Json,
    /// One JSON document a line.
    JsonLines,
}

/// A style of text. It only says what a piece is; a screen without colour prints it plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// It went well.
    Good,
    /// It went badly.
    Bad,
    /// Look at it.
    Warn,
    /// Less important.
    Dim,
    /// More important.
    Strong,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warn => "33",
            Self::Dim => "2",
            Self::Strong => "1",
        }
    }
}

/// Where a command prints.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    pub(crate) form: Form,
    colour: bool,
    quiet: bool,
    width: usize,
}

impl Screen {
    pub(crate) fn new(global: &Global) -> Self {
        let form = match (global.json, global.jsonl) {
            (_, true) => Form::JsonLines,
            (true, false) => Form::Json,
            (false, false) => Form::Text,
        };
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self {
            form,
            colour: io::stdout().is_terminal() && !no_colour && !dumb,
            quiet: global.quiet,
            width: width(),
        }
    }

    /// A screen without colour, for text that becomes part of a document and for tests.
    pub(crate) const fn plain(width: usize) -> Self {
        Self {
            form: Form::Text,
            colour: false,
            quiet: false,
            width,
        }
    }

    /// The same with another form of data.
    pub(crate) fn with_form(&self, form: Form) -> Self {
        Self { form, ..self.clone() }
    }

    /// Columns of the terminal.
    pub(crate) const fn width(&self) -> usize {
        self.width
    }

    /// Whether a person watches stdout.
    pub(crate) fn is_watched(&self) -> bool {
        self.form == Form::Text && io::stdout().is_terminal()
    }

    /// A styled piece of a line.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{}m{text}\u{1b}[0m", style.code())
        } else {
            text.to_owned()
        }
    }

    /// Prints a line of data.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
        written.map_err(|error| cannot_print(&error))
    }

    /// Prints data as it is.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        written.map_err(|error| cannot_print(&error))
    }

    /// Prints one JSON document: indented, or on one line in a stream.
    pub(crate) fn document(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = match self.form {
            Form::JsonLines => serde_json::to_string(value),
            Form::Text | Form::Json => serde_json::to_string_pretty(value),
        };
        match text {
            Ok(text) => self.line(&text),
            Err(error) => Err(Failure::unavailable("the answer cannot be printed as JSON").because(&error)),
        }
    }

    /// Talks to the person: stderr, unless it is to be quiet. Nobody has to listen.
    pub(crate) fn talk(&self, text: &str) {
        if !self.quiet {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Prints a failure with its causes and what to do next.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.is_silent() {
            return;
        }
        let mut stderr = io::stderr().lock();
        let mut chain = failure.chain().iter();
        if let Some(what) = chain.next() {
            let _ = writeln!(stderr, "error: {what}");
        }
        for cause in chain {
            let _ = writeln!(stderr, "  because: {cause}");
        }
        if let Some(next) = failure.next() {
            let _ = writeln!(stderr, "  next: {next}");
        }
    }
}

fn width() -> usize {
    let asked = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let seen = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    asked.or_else(seen).unwrap_or(100).clamp(40, 400)
}

fn cannot_print(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::nobody_reads()
    } else {
        Failure::unavailable("the output cannot be written").because(error)
    }
}
