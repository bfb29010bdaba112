//! `portolan runs cancel RUN`.

use crate::{
    Exit, Failure,
    client::{Server, text},
    screen::{Form, Screen},
};
use reqwest::Method;

/// Asks for the end of a run. What is durable afterwards is the wish.
pub(super) async fn run(id: &str, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    let answer = server
        .submit(Method::POST, &["v1", "runs", id, "cancel"], None)
        .await?;
    if screen.form == Form::Text {
        screen.line(&format!("{id} is {}", text(&answer["run"], "status")))?;
    } else {
        screen.document(&answer)?;
    }
    Ok(Exit::Ok)
}
