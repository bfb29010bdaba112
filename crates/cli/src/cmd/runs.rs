//! `portolan runs …`.

mod artifacts;
mod cancel;
mod events;
mod get;
mod ls;
mod steps;
mod trace;

pub(super) use get::{exit_of, summary};

use crate::{
    Exit, Failure,
    args::{Global, RunsCommand},
    client::Server,
    screen::{Form, Screen},
};
use serde_json::{Value, json};

/// Items of a page that are asked for.
const PAGE: usize = 200;
/// Pages that are asked for at the most.
const MAX_PAGES: usize = 500;

/// Runs the command.
pub(super) async fn run(command: RunsCommand, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    match command {
        RunsCommand::Ls(args) => ls::run(&args, &Server::find(&args.address, global)?, screen).await,
        RunsCommand::Get(args) => get::run(&args.run, &Server::find(&args.address, global)?, screen).await,
        RunsCommand::Events(args) => events::run(&args, &Server::find(&args.address, global)?, screen).await,
        RunsCommand::Steps(args) => steps::run(&args, &Server::find(&args.address, global)?, screen).await,
        RunsCommand::Trace(args) => {
            trace::run(&args.run, &Server::find(&args.address, global)?, screen).await
        }
        RunsCommand::Cancel(args) => {
            cancel::run(&args.run, &Server::find(&args.address, global)?, screen).await
        }
        RunsCommand::Artifacts(args) => {
            artifacts::run(&args, &Server::find(&args.address, global)?, screen).await
        }
    }
}

/// The items of a list, page by page, until there are enough.
pub(super) async fn pages(
    server: &Server,
    path: &[&str],
    query: &[(&str, String)],
    most: usize,
) -> Result<Vec<Value>, Failure> {
    let mut items: Vec<Value> = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let mut query = query.to_vec();
        query.push(("limit", (most - items.len()).min(PAGE).to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let mut page = server.get(path, &query).await?;
        if let Some(data) = page.get_mut("data").and_then(Value::as_array_mut) {
            items.append(data);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() || items.len() >= most {
            break;
        }
    }
    Ok(items)
}

/// Prints items as data where data is asked for. False: the caller prints them for people.
pub(super) fn print_data(screen: &Screen, items: &[Value]) -> Result<bool, Failure> {
    match screen.form {
        Form::Text => return Ok(false),
        Form::Json => screen.document(&json!({ "data": items }))?,
        Form::JsonLines => {
            for item in items {
                screen.document(item)?;
            }
        }
    }
    Ok(true)
}
