//! `portolan agents apply FILE`.

use crate::{
    Exit, Failure,
    agent_file::{self, Folders},
    client::{Server, text},
    failure::OrFail as _,
    screen::{Form, Screen},
};
use reqwest::Method;
use std::path::Path;

/// Sends the definition with everything that it names.
pub(super) async fn run(file: &Path, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    let definition = agent_file::load(file, Folders::Inlined)?;
    let body =
        serde_json::to_value(&definition).or_unavailable(|| "the definition cannot be encoded".to_owned())?;
    let path = ["v1", "agents", definition.name.as_str()];
    let answer = server.submit(Method::PUT, &path, Some(&body)).await?;
    if screen.form != Form::Text {
        screen.document(&answer)?;
        return Ok(Exit::Ok);
    }
    let agent = &answer["agent"];
    screen.line(&format!(
        "{} is at version {}",
        text(agent, "name"),
        agent["version"]
    ))?;
    Ok(Exit::Ok)
}
