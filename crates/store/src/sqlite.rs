//! The store on SQLite: one writer that commits groups, a few readers, one owner of the directory.
//!
//! Everything that writes goes through a bounded queue to one thread, which drains what waits into one transaction with
//! full durability and answers after the commit. Reads run on their own threads and connections. No future of this store
//! holds a transaction, so none can be cancelled inside one.

mod admin;
mod audit;
mod batch;
mod checkpoint;
mod code;
mod directory;
mod fault;
mod journal;
mod log;
mod migrator;
mod open;
mod read;
mod readers;
mod schema;
mod write;
mod writer;

pub use audit::SqliteAudit;
pub use directory::{DirectoryError, DirectoryLock, hold_directory};
pub use migrator::Migrator;
pub use open::StoreOpenError;
pub use schema::MigrationError;

use batch::{Pending, QueuedWrite, Write};
use fault::Fault;
use portolan_journal::{Hub, JournalError};
use readers::Readers;
use rusqlite::Connection;
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicBool},
    thread::JoinHandle,
};
use tokio::sync::{mpsc, oneshot};

/// The version of SQLite that is built in.
pub fn library_version() -> &'static str {
    rusqlite::version()
}

/// Writes that may wait for the writer. Whoever comes later waits for a place.
const QUEUE: usize = 1_024;

/// Runs, journals, budgets, agents and keys in one SQLite file.
///
/// Dropping it drains what was accepted and blocks for that long; [`SqliteStore::close`] does the same without blocking the
/// runtime, and leaves no write-ahead log behind.
#[derive(Debug)]
pub struct SqliteStore {
    gate: RwLock<Option<Gate>>,
    threads: Mutex<Option<Threads>>,
    hub: Hub,
}

/// The way in. It is taken away first when the store closes.
#[derive(Debug)]
struct Gate {
    writes: mpsc::Sender<QueuedWrite>,
    readers: Readers,
}

/// What ends with the store, in the order in which it ends.
#[derive(Debug)]
struct Threads {
    writer: JoinHandle<Connection>,
    checkpointer: JoinHandle<()>,
    readers: Vec<JoinHandle<()>>,
    lock: DirectoryLock,
}

impl SqliteStore {
    /// Opens the store in a directory, which is made if it is not there. Blocks.
    pub fn open(directory: &Path) -> Result<Self, StoreOpenError> {
        let lock = hold_directory(directory)?;
        let path = directory.join("portolan.db");
        open::make(&path)?;
        log::lengthen(&path, checkpoint::LOG_FRAMES).map_err(StoreOpenError::Log)?;
        let connection = open::writer(&path)?;
        let hub = Hub::default();
        let suspect = Arc::new(AtomicBool::new(false));
        let (readers, reader_threads) = readers::start(&path, &suspect)?;
        let (checkpoints, checkpointer) = checkpoint::start(open::checkpointer(&path)?)?;
        let (writes, queue) = mpsc::channel(QUEUE);
        let writer = writer::Writer::new(connection, hub.clone(), suspect, checkpoints)?;
        let writer = writer.start(queue)?;
        Ok(Self {
            gate: RwLock::new(Some(Gate { writes, readers })),
            threads: Mutex::new(Some(Threads {
                writer,
                checkpointer,
                readers: reader_threads,
                lock,
            })),
            hub,
        })
    }

    /// Drains what was accepted, folds the write-ahead log into the database and gives the directory free.
    pub async fn close(&self) {
        let Some(threads) = self.shut_gate() else {
            return;
        };
        let (done, closed) = oneshot::channel();
        let closer = std::thread::Builder::new()
            .name("store-close".to_owned())
            .spawn(move || {
                threads.end();
                let _ = done.send(());
            });
        match closer {
            // The thread answers last, or dies without an answer: both end the wait.
            Ok(_) => drop(closed.await),
            Err(error) => tracing::warn!(%error, "the store closes without its last checkpoint"),
        }
    }

    fn shut_gate(&self) -> Option<Threads> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner).take();
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Queues a write and waits for its commit.
    async fn write<W: Write>(&self, write: W) -> Result<W::Answer, JournalError> {
        let writes = {
            let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            gate.as_ref().map(|gate| gate.writes.clone())
        };
        let closed = || JournalError::NotCommitted("the store is closed".to_owned());
        let (pending, answer) = Pending::queue(write);
        let writes = writes.ok_or_else(closed)?;
        writes.send(pending).await.map_err(|_| closed())?;
        drop(writes);
        answer.await.unwrap_or_else(|_| {
            Err(JournalError::Unknown(
                "the writer ended before it answered".to_owned(),
            ))
        })
    }

    /// Runs a query on a reader.
    async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, JournalError> {
        let readers = {
            let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            gate.as_ref().map(|gate| gate.readers.clone())
        };
        let readers = readers.ok_or_else(|| JournalError::NotCommitted("the store is closed".to_owned()))?;
        readers.query(query).await
    }
}

impl Threads {
    fn end(self) {
        for reader in self.readers {
            let _ = reader.join();
        }
        let writer = self.writer.join();
        let _ = self.checkpointer.join();
        if let Ok(connection) = writer {
            checkpoint::last(connection);
        }
        drop(self.lock);
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if let Some(threads) = self.shut_gate() {
            threads.end();
        }
    }
}
