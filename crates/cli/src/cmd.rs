//! The commands, one file each.

mod agents;
mod completions;
mod config;
mod demo;
mod doctor;
mod export;
mod import;
mod init;
mod migrate;
mod openapi;
mod replay;
mod run;
mod runs;
mod serve;
mod verify;

use crate::{
    Exit, Failure,
    args::{Arguments, Command},
    config::{Config, process_environment},
    logging,
    screen::Screen,
};

/// Runs the command that was typed.
pub(crate) async fn run(arguments: Arguments, screen: Screen) -> Result<Exit, Failure> {
    let Arguments { global, command } = arguments;
    if !matches!(command, Command::Serve(_)) {
        let config = Config::load(&global.flags(), &process_environment);
        // A command that needs the configuration says itself what is wrong with it.
        if let Ok(config) = config {
            logging::start(config.log.value.as_deref(), "warn", config.log_format.value)?;
        }
    }
    match command {
        Command::Serve(args) => serve::run(args, &global, &screen).await,
        Command::Demo(args) => demo::run(args, &global, &screen).await,
        Command::Init(args) => init::run(&args, &screen),
        Command::Run(args) => run::run(args, &global, &screen).await,
        Command::Runs(command) => runs::run(command, &global, &screen).await,
        Command::Agents(command) => agents::run(command, &global, &screen).await,
        Command::Replay(args) => replay::run(&args, &global, &screen).await,
        Command::Export(args) => export::run(&args, &global, &screen).await,
        Command::Import(args) => import::run(&args, &global, &screen).await,
        Command::Migrate(args) => migrate::run(&args, &global, &screen).await,
        Command::Verify(args) => verify::run(&args, &global, &screen).await,
        Command::Doctor(args) => doctor::run(&args, &global, &screen).await,
        Command::Openapi => openapi::run(&screen),
        Command::Completions { shell } => completions::run(shell, &screen),
        Command::Config(command) => config::run(command, &global, &screen),
        Command::DemoProvider(args) => demo::provider(args, &screen).await,
    }
}
