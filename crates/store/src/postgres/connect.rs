//! Connections: how they are made, how long they live, and what becomes of one that went silent.

use super::{
    fault::{Fault, said},
    open::PostgresOpenError,
};
use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod,
    Runtime, Timeouts,
};
use portolan_journal::JournalError;
use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::timeout;
use tokio_postgres::{Config, Connection, NoTls, Socket, config::SslMode, tls::NoTlsStream};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_millis(1_000);
/// How long a statement may take here. The server ends it before that.
pub(super) const ANSWER: Duration = Duration::from_millis(2_300);
/// How long a read may take altogether.
const READ: Duration = Duration::from_millis(2_800);
/// How long a connection lives, so that a server that was moved or grew old is left.
const LIFETIME: Duration = Duration::from_secs(30 * 60);
/// Connections that read.
const READERS: usize = 8;
/// How often a backend that was ended is looked for.
const LOOKS: u32 = 40;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What every session is told: bounds on a statement, on the wait for a lock and on a transaction that nobody goes on with,
/// and the isolation that the statements are written for.
const SESSION: &str = "-c statement_timeout=2000 -c lock_timeout=1500 -c idle_in_transaction_session_timeout=5000 \
    -c default_transaction_isolation=read\\ committed -c client_min_messages=warning";

/// A database that can be connected to.
pub(super) struct Target {
    config: Config,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration holds a password.
        f.debug_struct("Target")
            .field("database", &self.config.get_dbname())
            .finish_non_exhaustive()
    }
}

/// A connection with what may have to be known about its backend.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: ClientWrapper,
    backend: Backend,
    opened: Instant,
}

impl Link {
    /// Whether it may be used once more.
    pub(super) fn is_good(&self) -> bool {
        !self.client.is_closed() && self.opened.elapsed() < LIFETIME
    }

    pub(super) fn backend(&self) -> Backend {
        self.backend.clone()
    }
}

/// A process of the server. Its number may be given to another after its end, its start may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backend {
    pid: i32,
    started: String,
}

impl Target {
    /// Reads the address of a database.
    pub(super) fn parse(url: &str) -> Result<Self, PostgresOpenError> {
        let mut config: Config = url.parse().map_err(|_| PostgresOpenError::Address)?;
        match config.get_ssl_mode() {
            SslMode::Disable | SslMode::Prefer => {}
            _ => return Err(PostgresOpenError::Encryption),
        }
        config.ssl_mode(SslMode::Disable);
        let options = config.get_options().unwrap_or_default();
        let options = format!("{options} {SESSION}");
        config
            .options(options)
            .application_name("portolan")
            .connect_timeout(CONNECT)
            .tcp_user_timeout(ANSWER)
            .keepalives_idle(Duration::from_secs(10));
        Ok(Self { config })
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<Link, Fault> {
        let (client, connection) = self.raw().await?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = said(&error), "a connection to the database ended");
            }
        });
        let client = ClientWrapper::new(client, task);
        let backend = bounded(backend(&client)).await?;
        Ok(Link {
            client,
            backend,
            opened: Instant::now(),
        })
    }

    /// Connects for somebody who listens to the connection himself.
    pub(super) async fn raw(
        &self,
    ) -> Result<(tokio_postgres::Client, Connection<Socket, NoTlsStream>), Fault> {
        match timeout(CONNECT, self.config.connect(NoTls)).await {
            Ok(connected) => connected.map_err(Fault::Before),
            Err(_) => Err(Fault::TooLong),
        }
    }

    /// The connections that read.
    pub(super) fn readers(&self, doubts: Arc<Doubts>) -> Result<Reader, PostgresOpenError> {
        let manager = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let too_old = Hook::sync_fn(|_, metrics| {
            if metrics.created.elapsed() < LIFETIME {
                Ok(())
            } else {
                Err(HookError::message("it is too old"))
            }
        });
        let pool = Pool::builder(Manager::from_config(self.config.clone(), NoTls, manager))
            .max_size(READERS)
            .timeouts(Timeouts {
                wait: Some(CONNECT),
                create: Some(CONNECT),
                recycle: Some(CONNECT),
            })
            .runtime(Runtime::Tokio1)
            .pre_recycle(too_old)
            .build()
            .map_err(|_| PostgresOpenError::Address)?;
        Ok(Reader { pool, doubts })
    }
}

async fn backend(client: &ClientWrapper) -> Result<Backend, Fault> {
    let sql = "SELECT pid, extract(epoch FROM backend_start)::text FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let row = client.query_one(sql, &[]).await?;
    Ok(Backend {
        pid: row.try_get(0)?,
        started: row.try_get(1)?,
    })
}

/// Bounds a statement.
pub(super) async fn bounded<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    timeout(ANSWER, work).await.unwrap_or(Err(Fault::TooLong))
}

/// The connections that read.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    pool: Pool,
    doubts: Arc<Doubts>,
}

impl Reader {
    /// A connection. What is read on it is not what a lost statement may still change.
    pub(super) async fn get(&self) -> Result<Object, JournalError> {
        let client = self.pool.get().await.map_err(|error| {
            JournalError::NotCommitted(match error {
                PoolError::Backend(error) => format!("the database cannot be reached: {}", said(&error)),
                other => format!("the database cannot be reached: {other}"),
            })
        })?;
        self.doubts.settle(&client).await.map_err(Fault::not_committed)?;
        Ok(client)
    }

    /// Bounds a read, from the wait for a connection to the answer.
    pub(super) async fn bounded<T>(
        work: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        timeout(READ, work)
            .await
            .unwrap_or_else(|_| Err(Fault::TooLong.not_committed()))
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// Backends that were sent a statement and did not answer. They may still be at it.
#[derive(Debug, Default)]
pub(super) struct Doubts(Mutex<Vec<Backend>>);

impl Doubts {
    pub(super) fn add(&self, backend: Backend) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(backend);
    }

    fn all(&self) -> Vec<Backend> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends them and waits until they are gone: then what they were sent is committed, or never will be.
    pub(super) async fn settle(&self, client: &ClientWrapper) -> Result<(), Fault> {
        for backend in self.all() {
            let mut looks = 0;
            while bounded(end(client, &backend)).await? {
                looks += 1;
                if looks > LOOKS {
                    return Err(Fault::Refused(
                        "the outcome of an earlier commit is not settled".to_owned(),
                    ));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            left.retain(|other| *other != backend);
        }
        Ok(())
    }
}

/// Asks a backend to end; true while it is there.
async fn end(client: &ClientWrapper, backend: &Backend) -> Result<bool, Fault> {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2";
    let rows = client.query(sql, &[&backend.pid, &backend.started]).await?;
    Ok(!rows.is_empty())
}
