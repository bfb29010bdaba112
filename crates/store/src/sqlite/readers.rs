//! The readers: a few connections that cannot write, each on its own thread.

use super::{StoreOpenError, fault::Fault, open};
use crossbeam_channel::{Receiver, Sender, unbounded};
use portolan_journal::JournalError;
use rusqlite::Connection;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tokio::sync::{Semaphore, oneshot};

/// Threads that read.
const READERS: usize = 3;

/// Queries that may wait. Whoever comes later waits for a place.
const WAITING: usize = 256;

type Query = Box<dyn FnOnce(&Connection) + Send>;

/// A handle to the readers.
#[derive(Debug, Clone)]
pub(super) struct Readers {
    queries: Sender<Query>,
    places: Arc<Semaphore>,
    suspect: Arc<AtomicBool>,
}

/// Opens the connections and starts the threads. They end when the last handle is dropped.
pub(super) fn start(
    path: &Path,
    suspect: &Arc<AtomicBool>,
) -> Result<(Readers, Vec<JoinHandle<()>>), StoreOpenError> {
    let (queries, asked) = unbounded::<Query>();
    let mut threads = Vec::with_capacity(READERS);
    for number in 1..=READERS {
        let connection = open::reader(path)?;
        let asked: Receiver<Query> = asked.clone();
        let thread = std::thread::Builder::new()
            .name(format!("store-reader-{number}"))
            .spawn(move || asked.iter().for_each(|query| query(&connection)))?;
        threads.push(thread);
    }
    let readers = Readers {
        queries,
        places: Arc::new(Semaphore::new(WAITING)),
        suspect: Arc::clone(suspect),
    };
    Ok((readers, threads))
}

impl Readers {
    /// Runs a query and waits for what it found.
    pub(super) async fn query<T: Send + 'static>(
        self,
        query: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, JournalError> {
        let gone = || JournalError::NotCommitted("the store is closed".to_owned());
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|_| gone())?;
        let (answer, found) = oneshot::channel();
        let suspect = Arc::clone(&self.suspect);
        let query: Query = Box::new(move |connection| {
            let result = if suspect.load(Ordering::Acquire) {
                Err(Fault::Refused(
                    "the outcome of an earlier commit is not settled".to_owned(),
                ))
            } else {
                query(connection)
            };
            // A caller that went away does not need the answer.
            let _ = answer.send(result);
            drop(place);
        });
        self.queries.send(query).map_err(|_| gone())?;
        drop(self);
        Ok(found.await.map_err(|_| gone())??)
    }
}
