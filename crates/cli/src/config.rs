//! The configuration: flag over environment over file over default, each value with the place that it came from.
//!
//! What is typed ([`file`]) and what is meant ([`Config`]) are two types. Unknown keys are refused, so a misspelt one is
//! never a default in disguise. Provider keys come from the environment only: a file is copied, committed and mailed.

mod database;
pub mod file;
pub mod providers;

pub use database::DatabaseUrl;
pub use file::{LogFormat, ProviderKind};
pub use providers::{KeySource, Provider};

use crate::failure::{Failure, OrFail as _};
use file::FileConfig;
use portolan_router::{BaseUrlPolicy, PriceEntry};
use std::{
    collections::BTreeMap,
    fmt,
    net::{SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
    str::FromStr,
};

/// The file that is read where nobody names one.
pub const FILE_NAME: &str = "portolan.toml";

const DATA: &str = "./portolan-data";
const LISTEN: &str = "127.0.0.1:7700";
const MAX_CONCURRENT_RUNS: usize = 256;
const LEAST_LEASE_MS: u64 = 300;
const LEAST_SWEEP_MS: u64 = 20;

/// Reads a variable of the environment. Tests bring their own.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A flag of the command line.
    Flag(&'static str),
    /// A variable of the environment.
    Environment(String),
    /// The configuration file.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Where it came from.
    pub source: Source,
}

/// What flags say. Absent ones say nothing.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<String>,
    /// `--allow-host-shell`.
    pub allow_host_shell: bool,
    /// `--allow-private-providers`.
    pub allow_private_providers: bool,
    /// `--insecure-listen`.
    pub insecure_listen: bool,
    /// `--max-concurrent-runs`.
    pub max_concurrent_runs: Option<usize>,
    /// `--database`.
    pub database: Option<DatabaseUrl>,
    /// `--allow-unsafe-database`.
    pub allow_unsafe_database: bool,
    /// `--log`.
    pub log: Option<String>,
    /// `--log-format`.
    pub log_format: Option<LogFormat>,
}

/// Everything that is configured, as it is meant.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// The data directory.
    pub data: Setting<PathBuf>,
    /// Where the server listens.
    pub listen: Setting<SocketAddr>,
    /// Whether commands may run without isolation.
    pub allow_host_shell: Setting<bool>,
    /// Whether providers may live on private addresses although the server can be reached from elsewhere.
    pub allow_private_providers: Setting<bool>,
    /// Whether to listen beyond loopback without encryption.
    pub insecure_listen: Setting<bool>,
    /// Runs that are driven at once.
    pub max_concurrent_runs: Setting<usize>,
    /// The shared database; absent: SQLite in the data directory.
    pub database: Setting<Option<DatabaseUrl>>,
    /// Whether a database may be used that can lose what it has committed.
    pub allow_unsafe_database: Setting<bool>,
    /// How long a run stays with a server that does not answer, in milliseconds; absent: the engine's default.
    pub lease_ms: Setting<Option<u64>>,
    /// How often free runs are looked for, in milliseconds; absent: the default of the store.
    pub sweep_ms: Setting<Option<u64>>,
    /// The filter of the log; absent: `RUST_LOG`.
    pub log: Setting<Option<String>>,
    /// The form of the log.
    pub log_format: Setting<LogFormat>,
    /// Providers that can be called.
    pub providers: Vec<Provider>,
    /// Keys in the environment of providers that are not supported yet.
    pub unsupported_keys: Vec<&'static str>,
    /// Stated prices.
    pub prices: BTreeMap<String, PriceEntry>,
}

impl Config {
    /// Reads everything. The first thing that is wrong is the failure.
    pub fn load(flags: &Flags, environment: &Environment<'_>) -> Result<Self, Failure> {
        let (path, typed) = read_file(flags, environment)?;
        let layers = Layers {
            environment,
            file: path.as_deref(),
        };
        let listen = layers.text(
            "--listen",
            flags.listen.clone(),
            "PORTOLAN_LISTEN",
            typed.listen,
            LISTEN,
        )?;
        let listen = Setting {
            value: address(&listen)?,
            source: listen.source,
        };
        let data = layers.parsed(
            "--data",
            flags.data.clone(),
            "PORTOLAN_DATA",
            typed.data,
            PathBuf::from(DATA),
        )?;
        let boolean = |flag, given: bool, variable, typed| {
            layers.parsed(flag, given.then_some(true), variable, typed, false)
        };
        let allow_private_providers = boolean(
            "--allow-private-providers",
            flags.allow_private_providers,
            "PORTOLAN_ALLOW_PRIVATE_PROVIDERS",
            typed.allow_private_providers,
        )?;
        let max_concurrent_runs = layers.parsed(
            "--max-concurrent-runs",
            flags.max_concurrent_runs,
            "PORTOLAN_MAX_CONCURRENT_RUNS",
            typed.max_concurrent_runs,
            MAX_CONCURRENT_RUNS,
        )?;
        if max_concurrent_runs.value == 0 {
            return Err(Failure::usage(format!(
                "maxConcurrentRuns is 0 ({}): a server that drives no run is no server",
                max_concurrent_runs.source
            )));
        }
        let lease_ms = layers.optional("leaseMs", None, "PORTOLAN_LEASE_MS", typed.lease_ms)?;
        let sweep_ms = layers.optional("sweepMs", None, "PORTOLAN_SWEEP_MS", typed.sweep_ms)?;
        bounded("leaseMs", &lease_ms, LEAST_LEASE_MS)?;
        bounded("sweepMs", &sweep_ms, LEAST_SWEEP_MS)?;
        let is_private_allowed = listen.value.ip().is_loopback() || allow_private_providers.value;
        Ok(Self {
            allow_host_shell: boolean(
                "--allow-host-shell",
                flags.allow_host_shell,
                "PORTOLAN_ALLOW_HOST_SHELL",
                typed.allow_host_shell,
            )?,
            insecure_listen: boolean(
                "--insecure-listen",
                flags.insecure_listen,
                "PORTOLAN_INSECURE_LISTEN",
                typed.insecure_listen,
            )?,
            database: database(flags, environment)?,
            allow_unsafe_database: boolean(
                "--allow-unsafe-database",
                flags.allow_unsafe_database,
                "PORTOLAN_ALLOW_UNSAFE_DATABASE",
                typed.allow_unsafe_database,
            )?,
            lease_ms,
            sweep_ms,
            log: layers.optional("--log", flags.log.clone(), "PORTOLAN_LOG", typed.log)?,
            log_format: layers.parsed(
                "--log-format",
                flags.log_format,
                "PORTOLAN_LOG_FORMAT",
                typed.log_format,
                LogFormat::Text,
            )?,
            providers: providers::providers(
                typed.providers,
                environment,
                path.as_deref(),
                is_private_allowed,
            )?,
            unsupported_keys: providers::unsupported_keys(environment),
            prices: typed.prices,
            file: path,
            data,
            listen,
            allow_private_providers,
            max_concurrent_runs,
        })
    }

    /// Which addresses providers may have: a server that others reach must not be a way into its own network.
    pub fn provider_policy(&self) -> BaseUrlPolicy {
        if self.listen.value.ip().is_loopback() || self.allow_private_providers.value {
            BaseUrlPolicy::AllowPrivate
        } else {
            BaseUrlPolicy::PublicOnly
        }
    }
}

/// The environment of this process.
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn read_file(flags: &Flags, environment: &Environment<'_>) -> Result<(Option<PathBuf>, FileConfig), Failure> {
    let named = flags
        .config
        .clone()
        .or_else(|| environment("PORTOLAN_CONFIG").map(PathBuf::from));
    let usual = PathBuf::from(FILE_NAME);
    let path = match named {
        Some(path) => path,
        None if usual.exists() => usual,
        None => return Ok((None, FileConfig::default())),
    };
    let text = std::fs::read_to_string(&path)
        .or_usage(|| format!("the configuration {} cannot be read", path.display()))?;
    let typed = FileConfig::parse(&text).map_err(|error| {
        Failure::usage(format!("the configuration {} is not valid", path.display()))
            .because(&error)
            .hint("`portolan init` writes a commented file with every key")
    })?;
    Ok((Some(path), typed))
}

/// The shared database. Its address may hold a password, so it is no key of the file, and a wrong one is not repeated.
fn database(flags: &Flags, environment: &Environment<'_>) -> Result<Setting<Option<DatabaseUrl>>, Failure> {
    const VARIABLE: &str = "PORTOLAN_DATABASE";
    let setting = |value, source| Setting {
        value: Some(value),
        source,
    };
    if let Some(url) = &flags.database {
        return Ok(setting(url.clone(), Source::Flag("--database")));
    }
    let Some(text) = environment(VARIABLE) else {
        return Ok(Setting {
            value: None,
            source: Source::Default,
        });
    };
    let url = text
        .parse()
        .or_usage(|| format!("{VARIABLE} is no address of a database"))?;
    Ok(setting(url, Source::Environment(VARIABLE.to_owned())))
}

/// A span of time that is too short would only keep the server busy.
fn bounded(key: &str, setting: &Setting<Option<u64>>, least: u64) -> Result<(), Failure> {
    match setting.value {
        Some(ms) if ms < least => Err(Failure::usage(format!(
            "{key} is {ms} ({}), and {least} is the least",
            setting.source
        ))),
        _ => Ok(()),
    }
}

fn address(setting: &Setting<String>) -> Result<SocketAddr, Failure> {
    let refused = || {
        Failure::usage(format!(
            "{:?} ({}) is no address to listen on",
            setting.value, setting.source
        ))
        .hint("give an address and a port, such as 127.0.0.1:7700; port 0 takes a free one")
    };
    let mut found = setting.value.to_socket_addrs().map_err(|_| refused())?;
    found.next().ok_or_else(refused)
}

/// The places below the flags.
struct Layers<'a> {
    environment: &'a Environment<'a>,
    file: Option<&'a Path>,
}

impl Layers<'_> {
    fn optional<T: FromStr>(
        &self,
        flag: &'static str,
        given: Option<T>,
        variable: &str,
        typed: Option<T>,
    ) -> Result<Setting<Option<T>>, Failure> {
        let setting = |value, source| Ok(Setting { value, source });
        if let Some(value) = given {
            return setting(Some(value), Source::Flag(flag));
        }
        if let Some(text) = (self.environment)(variable) {
            let value = text
                .parse()
                .map_err(|_| Failure::usage(format!("{variable} is {text:?}, which is no valid value")))?;
            return setting(Some(value), Source::Environment(variable.to_owned()));
        }
        match (typed, self.file) {
            (Some(value), Some(file)) => setting(Some(value), Source::File(file.to_owned())),
            (value, _) => setting(value, Source::Default),
        }
    }

    fn parsed<T: FromStr>(
        &self,
        flag: &'static str,
        given: Option<T>,
        variable: &str,
        typed: Option<T>,
        fallback: T,
    ) -> Result<Setting<T>, Failure> {
        let Setting { value, source } = self.optional(flag, given, variable, typed)?;
        Ok(Setting {
            value: value.unwrap_or(fallback),
            source,
        })
    }

    fn text(
        &self,
        flag: &'static str,
        given: Option<String>,
        variable: &str,
        typed: Option<String>,
        fallback: &str,
    ) -> Result<Setting<String>, Failure> {
        self.parsed(flag, given, variable, typed, fallback.to_owned())
    }
}

#[cfg(test)]
mod tests;
