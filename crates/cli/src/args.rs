//! The command line, as it is typed.

use crate::config::{DatabaseUrl, Flags, LogFormat};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs AI agents that are bounded, durable and typed.
#[derive(Debug, Parser)]
#[command(
    name = "portolan",
    version,
    about,
    propagate_version = true,
    after_help = "Exit codes: 0 ok, 1 negative finding, 2 usage, 3 waiting, 4 store, network or server, 5 partial, \
                  130 Ctrl-C."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The configuration file [default: ./portolan.toml if it is there; env: PORTOLAN_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print a stream of JSON documents, one a line
    #[arg(long, global = true, conflicts_with = "json")]
    pub(crate) jsonl: bool,
    /// Do not talk on stderr
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// What is logged, such as info or portolan_engine=debug [env: PORTOLAN_LOG, RUST_LOG]
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// The form of the log [env: PORTOLAN_LOG_FORMAT]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

impl Global {
    /// What these flags say about the configuration.
    pub(crate) fn flags(&self) -> Flags {
        Flags {
            config: self.config.clone(),
            log: self.log.clone(),
            log_format: self.log_format,
            ..Flags::default()
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server: the API, the engine and the store in one process
    Serve(ServeArgs),
    /// Watch an agent survive the death of its server, on this machine, with no key and no network
    Demo(DemoArgs),
    /// Write a commented agent file and a portolan.toml to start from
    Init(InitArgs),
    /// Run an agent: a file here and now, or a name on the server
    Run(RunArgs),
    /// Look at runs and cancel them
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Manage agents of the server
    #[command(subcommand)]
    Agents(AgentsCommand),
    /// Prove that a store holds what was promised: journals dense, books balanced, files whole
    Verify(VerifyArgs),
    /// Fold the journal of a run again, without a model or a tool, and say where it differs
    Replay(ReplayArgs),
    /// Write a run with its files into a file
    Export(ExportArgs),
    /// Put a run that was exported and has ended into a store
    Import(ImportArgs),
    /// Bring the schema of a store up to date
    Migrate(MigrateArgs),
    /// Check whether a server would run well here
    Doctor(DoctorArgs),
    /// Print the OpenAPI document of this build
    Openapi,
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// The scripted model provider of the demo
    #[command(hide = true)]
    DemoProvider(DemoProviderArgs),
}

/// Flags of the server.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerFlags {
    /// The data directory [default: ./portolan-data; env: PORTOLAN_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:7700; env: PORTOLAN_LISTEN]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Let the shell tool run commands on this host, without isolation [env: PORTOLAN_ALLOW_HOST_SHELL]
    #[arg(long)]
    pub(crate) allow_host_shell: bool,
    /// Listen beyond loopback without encryption [env: PORTOLAN_INSECURE_LISTEN]
    #[arg(long)]
    pub(crate) insecure_listen: bool,
    /// Reach providers on private addresses although others reach this server [env: PORTOLAN_ALLOW_PRIVATE_PROVIDERS]
    #[arg(long)]
    pub(crate) allow_private_providers: bool,
    /// Runs that are driven at once [default: 256; env: PORTOLAN_MAX_CONCURRENT_RUNS]
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrent_runs: Option<usize>,
    /// A Postgres that several servers may use, such as postgres://user@host/database [default: SQLite in the data directory; env:
    /// PORTOLAN_DATABASE]
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<DatabaseUrl>,
    /// Use a database that may lose what it has committed [env: PORTOLAN_ALLOW_UNSAFE_DATABASE]
    #[arg(long)]
    pub(crate) allow_unsafe_database: bool,
}

impl ServerFlags {
    /// What these flags say, together with the global ones.
    pub(crate) fn flags(&self, global: &Global) -> Flags {
        Flags {
            data: self.data.clone(),
            listen: self.listen.clone(),
            allow_host_shell: self.allow_host_shell,
            insecure_listen: self.insecure_listen,
            allow_private_providers: self.allow_private_providers,
            max_concurrent_runs: self.max_concurrent_runs,
            database: self.database.clone(),
            allow_unsafe_database: self.allow_unsafe_database,
            ..global.flags()
        }
    }
}

/// `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) server: ServerFlags,
}

/// Where the server is.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerAddress {
    /// The server [default: the address that `serve` listens on; env: PORTOLAN_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The data directory whose admin.key is used where PORTOLAN_API_KEY is not set [env: PORTOLAN_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// `demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Leave the server alive
    #[arg(long)]
    pub(crate) no_crash: bool,
    /// Leave the data directory behind
    #[arg(long)]
    pub(crate) keep: bool,
    /// Use a real model, such as openai/gpt-4.1-mini, instead of the script
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// How long the script thinks, in milliseconds [default: 250 on a terminal, else 0]
    #[arg(long, hide = true, value_name = "MS")]
    pub(crate) thinking_ms: Option<u64>,
}

/// `demo-provider`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoProviderArgs {
    /// The model call whose reply is held until it is released
    #[arg(long, value_name = "N")]
    pub(crate) hold_call: Option<usize>,
    /// How long the script thinks
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub(crate) thinking_ms: u64,
    /// Also write the ledger there, one line a send
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,
}

/// `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The data directory, of a running or a stopped server [default: ./portolan-data; env: PORTOLAN_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The database of several servers, instead of a data directory [env: PORTOLAN_DATABASE]
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub(crate) database: Option<DatabaseUrl>,
    /// Only the runs of this tenant
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// Only this run
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Do not read and hash the files of workspaces
    #[arg(long)]
    pub(crate) skip_files: bool,
}

/// `migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The data directory [default: ./portolan-data; env: PORTOLAN_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The database of several servers, instead of a data directory [env: PORTOLAN_DATABASE]
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub(crate) database: Option<DatabaseUrl>,
    /// Only say what would be applied
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The run on the server
    #[arg(required_unless_present = "from")]
    pub(crate) run: Option<String>,
    /// An exported run instead, without a server
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) address: ServerAddress,
}

/// `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The run
    pub(crate) run: String,
    /// The file to write [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) address: ServerAddress,
}

/// `import`.
///
/// The journal is written as it stands in the file, under the tenant of the admin key. Its usage is kept and marked as billed
/// elsewhere, and no budget is touched.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file that `portolan export` wrote
    pub(crate) file: PathBuf,
    /// The data directory of a stopped server [default: ./portolan-data; env: PORTOLAN_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The database of several servers, which may run; the admin key is that of --data, or PORTOLAN_API_KEY [env:
    /// PORTOLAN_DATABASE]
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<DatabaseUrl>,
}

/// `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The name of the agent
    #[arg(default_value = "assistant")]
    pub(crate) name: String,
    /// The directory to write into
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    pub(crate) force: bool,
}

/// `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A file (.toml, .yaml) to run here, not durably; or the name of an agent to run on the server
    pub(crate) agent: String,
    /// The input: JSON, or @FILE; what is no JSON is taken as text
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) input: Option<String>,
    /// The directory to work on: a copy of it, unless --in-place
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Print what happens as it happens
    #[arg(long)]
    pub(crate) follow: bool,
    /// Work on the directory itself (only with a file)
    #[arg(long, requires = "workspace")]
    pub(crate) in_place: bool,
    /// Let the shell tool run commands on this host, without isolation (only with a file)
    #[arg(long)]
    pub(crate) allow_host_shell: bool,
    #[command(flatten)]
    pub(crate) address: ServerAddress,
}

/// `runs …`.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    Ls(RunsLsArgs),
    /// Show a run
    Get(RunArg),
    /// Show the journal of a run
    Events(RunFollowArgs),
    /// Show the steps of a run as a waterfall
    Steps(RunFollowArgs),
    /// Show the trace of the bounded loop
    Trace(RunArg),
    /// Cancel a run
    Cancel(RunArg),
    /// List the files that a run changed, or fetch them
    Artifacts(RunArtifactsArgs),
}

/// `runs ls`.
#[derive(Debug, Args)]
pub(crate) struct RunsLsArgs {
    /// Only of this status
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only of this agent
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Only admitted at or after this moment (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only admitted before this moment (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) address: ServerAddress,
}

/// A command about one run.
#[derive(Debug, Args)]
pub(crate) struct RunArg {
    /// The run's id
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) address: ServerAddress,
}

/// A command about one run that may go on until the run ends.
#[derive(Debug, Args)]
pub(crate) struct RunFollowArgs {
    /// The run's id
    pub(crate) run: String,
    /// Go on until the run has ended
    #[arg(long, short)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) address: ServerAddress,
}

/// `runs artifacts`.
#[derive(Debug, Args)]
pub(crate) struct RunArtifactsArgs {
    /// The run's id
    pub(crate) run: String,
    /// Print the content of this file
    #[arg(conflicts_with = "into")]
    pub(crate) path: Option<String>,
    /// Write the files below this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) address: ServerAddress,
}

/// `agents …`.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// Make the definition of a file the agent's newest version
    Apply {
        /// The file (.toml, .yaml, .json)
        file: PathBuf,
        #[command(flatten)]
        address: ServerAddress,
    },
    /// List agents
    Ls {
        #[command(flatten)]
        address: ServerAddress,
    },
    /// Show an agent's definition
    Get {
        /// The agent's name
        name: String,
        /// This version instead of the newest
        #[arg(long, value_name = "N")]
        revision: Option<u32>,
        #[command(flatten)]
        address: ServerAddress,
    },
    /// Retire an agent: no new runs
    Rm {
        /// The agent's name
        name: String,
        #[command(flatten)]
        address: ServerAddress,
    },
}

/// `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) server: ServerFlags,
}

/// `config …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print what is in force and where each value came from, secrets masked
    Show {
        #[command(flatten)]
        server: ServerFlags,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_is_not_there_yet_is_not_offered() {
        let help = Arguments::command().render_long_help().to_string();
        for verb in ["budgets", "usage", "keys", "eval", "dataplane", "router"] {
            let offered = help.lines().any(|line| line.trim_start().starts_with(verb));
            assert!(!offered, "{verb} is offered");
        }
        assert!(!help.contains("demo-provider"));
    }
}
