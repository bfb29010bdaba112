//! `portolan agents get NAME`.

use crate::{
    Exit, Failure,
    client::Server,
    failure::OrFail as _,
    screen::{Form, Screen},
};

/// Shows a definition: as YAML for people, who may edit and apply it again.
pub(super) async fn run(
    name: &str,
    revision: Option<u32>,
    server: &Server,
    screen: &Screen,
) -> Result<Exit, Failure> {
    let number = revision.map(|number| number.to_string());
    let mut path = vec!["v1", "agents", name];
    if let Some(number) = &number {
        path.extend(["versions", number]);
    }
    let answer = server.get(&path, &[]).await?;
    if screen.form != Form::Text {
        screen.document(&answer)?;
        return Ok(Exit::Ok);
    }
    let definition = &answer["agent"]["definition"];
    let yaml = serde_yaml_ng::to_string(definition)
        .or_unavailable(|| "the definition cannot be shown".to_owned())?;
    screen.bytes(yaml.as_bytes())?;
    Ok(Exit::Ok)
}
