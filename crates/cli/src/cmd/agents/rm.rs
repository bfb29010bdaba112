//! `portolan agents rm NAME`.

use crate::{Exit, Failure, client::Server, screen::Screen};
use reqwest::Method;

/// Retires an agent.
pub(super) async fn run(name: &str, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    server
        .submit(Method::DELETE, &["v1", "agents", name], None)
        .await?;
    screen.talk(&format!(
        "{name} is retired: it takes no new runs, and those that run go on"
    ));
    Ok(Exit::Ok)
}
