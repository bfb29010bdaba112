//! A run on the server.

use crate::{
    Exit, Failure,
    args::{Global, RunArgs},
    client::{Follow, Server, text},
    cmd::runs::{exit_of, summary},
    failure::OrFail as _,
    folder,
    render::event_line,
    screen::{Form, Screen},
};
use reqwest::Method;
use serde_json::{Map, Value, json};

/// One wait for the end of a run.
const WAIT_MS: u64 = 30_000;

/// Starts a run and waits for its end. Ctrl-C ends the wait, not the run.
pub(super) async fn run(
    args: &RunArgs,
    input: Value,
    global: &Global,
    screen: &Screen,
) -> Result<Exit, Failure> {
    let server = Server::find(&args.address, global)?;
    let mut body = Map::new();
    body.insert("agentName".to_owned(), json!(args.agent));
    body.insert("input".to_owned(), input);
    if let Some(directory) = &args.workspace {
        let files = folder::inline(directory)?;
        let files =
            serde_json::to_value(files).or_unavailable(|| "the files cannot be encoded".to_owned())?;
        body.insert("files".to_owned(), files);
    }
    let answer = server
        .submit(Method::POST, &["v1", "runs"], Some(&Value::Object(body)))
        .await?;
    let id = text(&answer["run"], "id").to_owned();
    screen.talk(&format!("{id} is {}", text(&answer["run"], "status")));
    let run = tokio::select! {
        run = wait(&server, &id, args.follow, screen) => run?,
        _ = tokio::signal::ctrl_c() => {
            return Err(Failure::interrupted(format!("{id} goes on without you"))
                .hint(format!("`portolan runs events {id} --follow` watches it, `portolan runs cancel {id}` ends it")));
        }
    };
    match screen.form {
        // A stream has told everything already.
        Form::JsonLines if args.follow => {}
        Form::Json | Form::JsonLines => screen.document(&json!({ "run": run }))?,
        Form::Text => {
            for line in summary(screen, &run)? {
                screen.line(&line)?;
            }
        }
    }
    Ok(exit_of(&run))
}

/// The run when it has ended, or when it waits for something that this command cannot give.
async fn wait(server: &Server, id: &str, follow: bool, screen: &Screen) -> Result<Value, Failure> {
    if follow {
        let mut follow = Follow::new(server, id, 0);
        while let Some(frame) = follow.next().await? {
            match screen.form {
                Form::JsonLines => screen.document(&frame.event)?,
                Form::Text => screen.line(&event_line(screen, &frame.event))?,
                Form::Json => screen.talk(&event_line(screen, &frame.event)),
            }
            let data = &frame.event["data"];
            if text(&frame.event, "kind") == "run_waiting" && text(data, "reason") != "timer" {
                break;
            }
        }
        let answer = server.get(&["v1", "runs", id], &[]).await?;
        return Ok(answer["run"].clone());
    }
    loop {
        let query = [("waitMs", WAIT_MS.to_string())];
        let answer = server.get(&["v1", "runs", id], &query).await?;
        let run = &answer["run"];
        if matches!(
            text(run, "status"),
            "succeeded" | "failed" | "cancelled" | "waiting"
        ) {
            return Ok(run.clone());
        }
    }
}
