//! Logs: to stderr, filtered, as text or as JSON.

use crate::{config::LogFormat, failure::Failure};
use std::io::{self, IsTerminal as _};
use tracing_subscriber::EnvFilter;

/// Starts logging. `RUST_LOG` is what the configuration falls back to.
pub(crate) fn start(filter: Option<&str>, fallback: &str, format: LogFormat) -> Result<(), Failure> {
    let from_environment = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
    let text = filter
        .map(str::to_owned)
        .or(from_environment)
        .unwrap_or_else(|| fallback.to_owned());
    let filter = EnvFilter::try_new(&text).map_err(|error| {
        Failure::usage(format!("the log filter {text:?} cannot be used"))
            .because(&error)
            .hint("try info, debug, or portolan_engine=debug,info")
    })?;
    let colour =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colour);
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::unavailable(format!("logging cannot be started: {error}")))
}
