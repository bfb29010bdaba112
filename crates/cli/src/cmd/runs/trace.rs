//! `portolan runs trace RUN`.

use super::print_data;
use crate::{
    Exit, Failure,
    client::{Server, text},
    render::{clock_time, fit},
    screen::{Form, Screen},
};
use portolan_core::time::Timestamp;
use serde_json::Value;

/// Shows the trace of the bounded loop.
pub(super) async fn run(id: &str, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    let trace = server.get(&["v1", "runs", id, "trace"], &[]).await?;
    let events = trace["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    match screen.form {
        Form::Json => screen.document(&trace)?,
        Form::JsonLines => {
            print_data(screen, events)?;
        }
        Form::Text => {
            for event in events {
                let at = text(event, "at")
                    .parse::<Timestamp>()
                    .map(clock_time)
                    .unwrap_or_default();
                let data = match &event["data"] {
                    Value::Object(data) if data.is_empty() => String::new(),
                    data => data.to_string(),
                };
                let room = screen.width().saturating_sub(42).max(20);
                let line = format!("{at}  {:<26}  {}", text(event, "kind"), fit(&data, room));
                screen.line(line.trim_end())?;
            }
        }
    }
    Ok(Exit::Ok)
}
