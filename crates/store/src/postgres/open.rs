//! Opening: a server that keeps what it commits, of a version that is known, with the schema that this build writes.

use super::{
    PostgresStore,
    connect::{Doubts, Link, Target, bounded},
    fault::Fault,
    schema::{self, PostgresMigrationError},
};
use std::sync::Arc;

/// The first version of Postgres that the statements are tested with.
const LEAST_SERVER: i32 = 150_000;

/// What makes a commit survive a power cut.
const DURABILITY: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// The address is none. It is not repeated: it may hold a password.
    #[error("the address of the database cannot be read; expected postgres://user@host/database")]
    Address,
    /// It asks for encryption.
    #[error(
        "sslmode=require is not supported by this build: reach the database over a Unix socket, or through a tunnel"
    )]
    Encryption,
    /// The server does not answer.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The server is too old.
    #[error("the server is Postgres {found}; 15 or later is needed")]
    OldServer {
        /// Its version.
        found: String,
    },
    /// A setting is such that a commit might not survive a power cut.
    #[error("the database setting {setting} is off, so what it commits may be lost")]
    Setting {
        /// Which.
        setting: &'static str,
    },
    /// The server only reads.
    #[error("the server takes no writes: it is a standby, or set to read only")]
    ReadOnly,
    /// Text would be damaged.
    #[error("the encoding of the database is {found} instead of UTF8")]
    Encoding {
        /// What it is.
        found: String,
    },
    /// The schema is not the expected one.
    #[error("the database has no usable schema")]
    Schema(#[from] PostgresMigrationError),
}

/// How the database is opened.
#[derive(Debug, Clone, Copy)]
pub struct PostgresOptions {
    /// Takes a server whose commits may be lost.
    pub allow_unsafe: bool,
    /// Tells the other replicas about commits. Without, they find them when they look.
    pub hints: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            allow_unsafe: false,
            hints: true,
        }
    }
}

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its version.
    pub version: String,
    /// The version of the schema; `None` for an empty database.
    pub schema: Option<u32>,
    /// The version that this build writes.
    pub newest_schema: u32,
}

impl PostgresStore {
    /// Connects, checks the server, gives an empty database its schema, and starts the tasks that write. Of several that start
    /// at once, one makes the schema and the others wait for it.
    ///
    /// A schema of an earlier build is refused: a replica of that build may be using it.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, PostgresOpenError> {
        let target = Arc::new(Target::parse(url)?);
        let link = target.connect().await.map_err(|fault| unreachable(&fault))?;
        check(&link, options).await?;
        schema::make_or_check(&link).await?;
        let doubts = Arc::new(Doubts::default());
        let readers = target.readers(Arc::clone(&doubts))?;
        Ok(Self::start(&target, readers, &doubts, options.hints))
    }

    /// Looks at a server without changing anything.
    pub async fn inspect(url: &str, options: PostgresOptions) -> Result<ServerFacts, PostgresOpenError> {
        let target = Target::parse(url)?;
        let link = target.connect().await.map_err(|fault| unreachable(&fault))?;
        check(&link, options).await?;
        let version = show(&link, "server_version")
            .await
            .map_err(|fault| unreachable(&fault))?;
        let schema = schema::version(&link).await?;
        Ok(ServerFacts {
            version,
            schema,
            newest_schema: schema::newest(),
        })
    }
}

/// A failure before anything is known about the server.
pub(super) fn unreachable(fault: &Fault) -> PostgresOpenError {
    PostgresOpenError::Unreachable(fault.to_string())
}

async fn show(link: &Link, setting: &str) -> Result<String, Fault> {
    bounded(async {
        let row = link
            .client
            .query_one("SELECT current_setting($1)", &[&setting])
            .await?;
        Ok(row.try_get(0)?)
    })
    .await
}

async fn check(link: &Link, options: PostgresOptions) -> Result<(), PostgresOpenError> {
    let show = async |setting| show(link, setting).await.map_err(|fault| unreachable(&fault));
    let number = show("server_version_num").await?;
    if number.parse::<i32>().unwrap_or_default() < LEAST_SERVER {
        let found = show("server_version").await?;
        return Err(PostgresOpenError::OldServer { found });
    }
    let found = show("server_encoding").await?;
    if found != "UTF8" {
        return Err(PostgresOpenError::Encoding { found });
    }
    if show("transaction_read_only").await? != "off" {
        return Err(PostgresOpenError::ReadOnly);
    }
    for setting in DURABILITY {
        if show(setting).await? != "off" {
            continue;
        }
        if !options.allow_unsafe {
            return Err(PostgresOpenError::Setting { setting });
        }
        tracing::warn!(
            setting,
            "the database may lose what it has committed; it was allowed by name"
        );
    }
    Ok(())
}
