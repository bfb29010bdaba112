//! `portolan runs steps RUN`: the waterfall.

use super::print_data;
use crate::{
    Exit, Failure,
    args::RunFollowArgs,
    client::{Follow, Server},
    render::waterfall,
    screen::Screen,
};
use portolan_core::time::Clock as _;
use portolan_engine::ambient::SystemClock;
use serde_json::Value;

/// Shows the steps of a run; with `--follow`, when it has ended, and on a terminal also while it goes on.
pub(super) async fn run(args: &RunFollowArgs, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    let mut drawn = 0;
    if args.follow {
        let mut follow = Follow::new(server, &args.run, 0);
        while let Some(frame) = follow.next().await? {
            let moves = matches!(
                frame.event["kind"].as_str(),
                Some("step_started" | "step_completed" | "step_failed")
            );
            if moves && screen.is_watched() {
                let steps = steps(&args.run, server).await?;
                drawn = draw(screen, &steps, drawn)?;
            }
        }
    }
    let steps = steps(&args.run, server).await?;
    if !print_data(screen, &steps)? {
        draw(screen, &steps, drawn)?;
    }
    Ok(Exit::Ok)
}

async fn steps(run: &str, server: &Server) -> Result<Vec<Value>, Failure> {
    let mut answer = server.get(&["v1", "runs", run, "steps"], &[]).await?;
    let steps = answer
        .get_mut("data")
        .and_then(Value::as_array_mut)
        .map(std::mem::take);
    Ok(steps.unwrap_or_default())
}

/// Draws over what was drawn before, and says how many lines there are now.
fn draw(screen: &Screen, steps: &[Value], drawn: usize) -> Result<usize, Failure> {
    let lines = waterfall(screen, steps, SystemClock::new().now());
    if drawn > 0 {
        screen.bytes(format!("\u{1b}[{drawn}A\u{1b}[J").as_bytes())?;
    }
    for line in &lines {
        screen.line(line)?;
    }
    Ok(lines.len())
}
