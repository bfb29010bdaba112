//! `portolan agents ls`.

use crate::{
    Exit, Failure,
    client::{Server, text},
    cmd::runs::pages,
    render::{Table, fit},
    screen::Screen,
};

/// Lists the agents.
pub(super) async fn run(server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    let agents = pages(server, &["v1", "agents"], &[], usize::MAX).await?;
    if crate::cmd::runs::print_data(screen, &agents)? {
        return Ok(Exit::Ok);
    }
    if agents.is_empty() {
        screen.talk("no agents yet; `portolan agents apply FILE` makes one");
    }
    let mut table = Table::new(["NAME", "VERSION", "MODEL", "CREATED", "DESCRIPTION"]);
    for agent in &agents {
        let definition = &agent["definition"];
        let model = definition.get("model").or_else(|| definition.get("capability"));
        table.row([
            text(agent, "name").to_owned(),
            agent["version"].to_string(),
            model
                .and_then(|model| model.as_str())
                .unwrap_or_default()
                .to_owned(),
            text(agent, "createdAt").to_owned(),
            fit(text(definition, "description"), 60),
        ]);
    }
    if !table.is_empty() {
        for line in table.lines(screen) {
            screen.line(&line)?;
        }
    }
    Ok(Exit::Ok)
}
