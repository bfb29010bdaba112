//! `portolan serve`: one process with everything in it.

use crate::{
    Exit, Failure,
    args::{Global, ServeArgs},
    compose::{self, ComposeError},
    config::{Config, process_environment},
    failure::OrFail as _,
    faults, logging,
    screen::Screen,
};
use portolan_router::ProviderConfigError;
use portolan_store::{
    StoreOpenError,
    postgres::{PostgresMigrationError, PostgresOpenError},
    sqlite::DirectoryError,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long the steps in flight may take once the server drains.
const GRACE_MS: u64 = 25_000;

/// Runs the server until a signal ends it.
pub(super) async fn run(args: ServeArgs, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let config = Config::load(&args.server.flags(global), &process_environment)?;
    logging::start(config.log.value.as_deref(), "info", config.log_format.value)?;
    faults::arm()?;
    let mut signals = Signals::listen()?;
    raise_descriptor_limit();
    for variable in &config.unsupported_keys {
        tracing::warn!("{variable} is set, but its provider is not supported yet");
    }
    let server = compose::server(&config)
        .await
        .map_err(|error| explain(&error, &config))?;
    if let Some(path) = server.fresh_admin_key() {
        let path = path.display();
        screen.talk(&format!(
            "first start: made the tenant `default` and an admin key, which is in {path} (readable only by you)"
        ));
    }
    let first = tokio::select! {
        () = server.ready() => None,
        stop = signals.next() => Some(stop),
    };
    let stop = match first {
        Some(stop) => stop,
        None => {
            screen.line(&format!("portolan is ready on http://{}", server.address()))?;
            signals.next().await
        }
    };
    tracing::info!(
        runs = server.driven_runs(),
        "draining; a second signal ends the process at once"
    );
    tokio::select! {
        () = server.drain(GRACE_MS) => {
            tracing::info!("drained");
            Ok(stop.exit())
        }
        again = signals.next() => at_once(again),
    }
}

/// Takes as many descriptors as the process may have: each connection needs one, and the usual soft limit is that of a shell.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays at {:?}", limit.current);
    }
}

/// Ends the process without waiting for anything: whoever asks twice does not want to wait.
#[expect(
    clippy::exit,
    reason = "a second signal ends the process at once; the journal survives that"
)]
fn at_once(stop: Stop) -> ! {
    std::process::exit(i32::from(stop.exit().code().max(1)))
}

/// Why the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Terminate,
    Interrupt,
}

impl Stop {
    const fn exit(self) -> Exit {
        match self {
            Self::Terminate => Exit::Ok,
            Self::Interrupt => Exit::Interrupted,
        }
    }
}

/// The signals that end a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).or_unavailable(|| "signals cannot be listened to".to_owned());
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.interrupt.recv() => Stop::Interrupt,
        }
    }
}

/// Adds what to do about a server that does not start.
fn explain(error: &ComposeError, config: &Config) -> Failure {
    const WHAT: &str = "the server cannot start";
    let unavailable = || Failure::unavailable(WHAT).because(error);
    let usage = || Failure::usage(WHAT).because(error);
    match error {
        ComposeError::OpenListen(_) => {
            usage().hint("listen on loopback behind a proxy with TLS, or accept it with --insecure-listen")
        }
        ComposeError::Listen { .. } => {
            unavailable().hint("choose another address with --listen; port 0 takes a free one")
        }
        ComposeError::Store { source, .. } => match source {
            StoreOpenError::Directory(DirectoryError::InUse { .. }) => unavailable()
                .hint("another server runs on it: stop that one, or choose another directory with --data"),
            StoreOpenError::Directory(DirectoryError::Unusable { .. }) => {
                unavailable().hint("choose a directory that this user may write, with --data")
            }
            StoreOpenError::Schema(_)
            | StoreOpenError::OldSqlite { .. }
            | StoreOpenError::Setting { .. }
            | StoreOpenError::Database(_)
            | StoreOpenError::Log(_)
            | StoreOpenError::Thread(_) => unavailable().hint("`portolan doctor` looks closer"),
        },
        ComposeError::Database(source) => match source {
            PostgresOpenError::Setting { .. } => unavailable()
                .hint("switch it on, or accept that runs may be lost with --allow-unsafe-database"),
            PostgresOpenError::Schema(PostgresMigrationError::Behind { .. }) => {
                unavailable().hint("stop the servers of the earlier build, then run `portolan migrate`")
            }
            PostgresOpenError::Address | PostgresOpenError::Encryption => usage(),
            PostgresOpenError::Unreachable(_)
            | PostgresOpenError::OldServer { .. }
            | PostgresOpenError::ReadOnly
            | PostgresOpenError::Encoding { .. }
            | PostgresOpenError::Schema(_) => unavailable().hint("`portolan doctor` looks closer"),
        },
        ComposeError::Provider(ProviderConfigError::BaseUrl { provider, .. }) => usage().hint(format!(
            "correct the base URL of {provider}; `portolan config show` says where it came from"
        )),
        ComposeError::Provider(_) | ComposeError::Price(_) => {
            let file = config
                .file
                .as_ref()
                .map_or_else(|| "the environment".to_owned(), |file| file.display().to_string());
            usage().hint(format!("correct {file}"))
        }
        ComposeError::Keys(_) => unavailable()
            .hint("restore the file from a backup of the data directory; without it no API key is valid"),
        ComposeError::Blobs { .. } | ComposeError::Workspaces { .. } => {
            unavailable().hint("`portolan doctor` checks the data directory")
        }
        ComposeError::Http(_) | ComposeError::Interrupted => unavailable(),
    }
}
