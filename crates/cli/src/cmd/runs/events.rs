//! `portolan runs events RUN`.

use super::print_data;
use crate::{
    Exit, Failure,
    args::RunFollowArgs,
    client::{Follow, Server},
    render::event_line,
    screen::{Form, Screen},
};
use serde_json::Value;

/// Lists of events that are asked for at the most.
const MAX_PAGES: usize = 1_000;

/// Shows the journal, and goes on with the run if asked to.
pub(super) async fn run(args: &RunFollowArgs, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    if args.follow {
        return follow(&args.run, server, screen).await;
    }
    let events = all(&args.run, server).await?;
    if print_data(screen, &events)? {
        return Ok(Exit::Ok);
    }
    for event in &events {
        screen.line(&event_line(screen, event))?;
    }
    Ok(Exit::Ok)
}

/// A document that never ends is none, so following prints a stream.
async fn follow(run: &str, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    let lines = screen.with_form(Form::JsonLines);
    let mut follow = Follow::new(server, run, 0);
    while let Some(frame) = follow.next().await? {
        match screen.form {
            Form::Text => screen.line(&event_line(screen, &frame.event))?,
            Form::Json | Form::JsonLines => lines.document(&frame.event)?,
        }
    }
    Ok(Exit::Ok)
}

async fn all(run: &str, server: &Server) -> Result<Vec<Value>, Failure> {
    let mut events: Vec<Value> = Vec::new();
    for _ in 0..MAX_PAGES {
        let after = events
            .last()
            .and_then(|event| event["seq"].as_u64())
            .unwrap_or_default();
        let mut page = server
            .get(&["v1", "runs", run, "events"], &[("after", after.to_string())])
            .await?;
        if let Some(data) = page.get_mut("data").and_then(Value::as_array_mut) {
            events.append(data);
        }
        if page["hasMore"] != Value::Bool(true) {
            break;
        }
    }
    Ok(events)
}
