//! `portolan agents …`.

mod apply;
mod get;
mod ls;
mod rm;

use crate::{
    Exit, Failure,
    args::{AgentsCommand, Global},
    client::Server,
    screen::Screen,
};

/// Runs the command.
pub(super) async fn run(command: AgentsCommand, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    match command {
        AgentsCommand::Apply { file, address } => {
            apply::run(&file, &Server::find(&address, global)?, screen).await
        }
        AgentsCommand::Ls { address } => ls::run(&Server::find(&address, global)?, screen).await,
        AgentsCommand::Get {
            name,
            revision,
            address,
        } => get::run(&name, revision, &Server::find(&address, global)?, screen).await,
        AgentsCommand::Rm { name, address } => rm::run(&name, &Server::find(&address, global)?, screen).await,
    }
}
