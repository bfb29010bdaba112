//! The store on Postgres, which several control planes share.
//!
//! Whatever writes goes through a queue to a task of this store that owns its connection, so no future of a caller holds a
//! transaction and none can be cancelled inside one. The queues are sharded by run: the appends of a run keep their order. A
//! task drains what waits and sends the appends, and the admissions, as one autocommit statement each; what the statement
//! does not decide, because a budget has a limit or a command waits, is decided in a short transaction of its own. Each is
//! judged alone. Nothing is cached that another replica may change.
//!
//! Queries are the text that SQLite runs too (`crate::sql`), and what an append comes to is computed by the same code
//! (`crate::judge`); the writes differ, because here rows are locked and groups are arrays.
//!
//! A statement whose answer was lost has an unknown outcome. Before anything else is asked, the backend that ran it is ended,
//! so that what is read back is what stays.

mod admin;
mod audit;
mod blobs;
mod connect;
mod fault;
mod hint;
mod journal;
mod lane;
mod open;
mod read;
mod schema;
mod write;

pub use audit::PostgresAudit;
pub use blobs::PostgresBlobs;
pub use open::{PostgresOpenError, PostgresOptions, ServerFacts};
pub use schema::{Migrator, PostgresMigrationError};

use connect::{Doubts, Reader, Target};
use lane::{Job, Pending, Write};
use portolan_core::ids::RunId;
use portolan_journal::{Hub, JournalError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// Writes that may wait for one task. Whoever comes later waits for a place.
const QUEUE: usize = 1_024;

/// Tasks that write runs.
const SHARDS: usize = 4;

/// Runs, journals, budgets, agents, keys and blobs in one Postgres database.
#[derive(Debug)]
pub struct PostgresStore {
    gate: RwLock<Option<Gate>>,
    tasks: Mutex<Option<Tasks>>,
    readers: Reader,
    hub: Hub,
}

/// The way in. It is taken away first when the store closes.
#[derive(Debug, Clone)]
struct Gate {
    /// One queue a shard of the runs.
    shards: Vec<mpsc::Sender<Job>>,
    /// Leases, so that they wait for nobody's work.
    leases: mpsc::Sender<Job>,
    /// Claims, limits, agents, keys.
    rest: mpsc::Sender<Job>,
}

/// Where a write queues.
#[derive(Debug, Clone, Copy)]
enum Queue {
    Of(RunId),
    Leases,
    Rest,
}

/// What ends with the store.
#[derive(Debug)]
struct Tasks {
    lanes: Vec<JoinHandle<()>>,
    hints: Option<JoinHandle<()>>,
}

impl PostgresStore {
    fn start(target: &Arc<Target>, readers: Reader, doubts: &Arc<Doubts>, hints: bool) -> Self {
        let hub = Hub::default();
        let (news, hints) = hint::start(Arc::clone(target), hub.clone(), readers.clone(), hints);
        let mut lanes = Vec::new();
        let mut lane = || {
            let (jobs, queue) = mpsc::channel(QUEUE);
            let lane = lane::Lane::new(Arc::clone(target), Arc::clone(doubts), news.clone());
            lanes.push(tokio::spawn(lane.run(queue)));
            jobs
        };
        let gate = Gate {
            shards: (0..SHARDS).map(|_| lane()).collect(),
            leases: lane(),
            rest: lane(),
        };
        Self {
            gate: RwLock::new(Some(gate)),
            tasks: Mutex::new(Some(Tasks { lanes, hints })),
            readers,
            hub,
        }
    }

    /// Drains what was accepted and ends the connections.
    pub async fn close(&self) {
        drop(self.gate.write().unwrap_or_else(PoisonError::into_inner).take());
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Tasks { lanes, hints }) = tasks else {
            return;
        };
        for lane in lanes {
            if let Err(error) = lane.await {
                tracing::error!(%error, "a writing task of the store ended by a defect");
            }
        }
        if let Some(hints) = hints {
            hints.abort();
            // It was told to end: that it did is all there is to know.
            let _ = hints.await;
        }
        self.readers.close();
    }

    fn queue(&self, queue: Queue) -> Option<mpsc::Sender<Job>> {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let gate = gate.as_ref()?;
        Some(match queue {
            Queue::Of(run) => {
                let mixed = run
                    .as_bytes()
                    .iter()
                    .fold(0_u8, |mixed, byte| mixed.wrapping_mul(31).wrapping_add(*byte));
                gate.shards.get(usize::from(mixed) % SHARDS)?.clone()
            }
            Queue::Leases => gate.leases.clone(),
            Queue::Rest => gate.rest.clone(),
        })
    }

    /// Queues a job and waits for its answer.
    async fn ask<T>(
        &self,
        queue: Queue,
        job: Job,
        answer: oneshot::Receiver<Result<T, JournalError>>,
    ) -> Result<T, JournalError> {
        let closed = || JournalError::NotCommitted("the store is closed".to_owned());
        let queue = self.queue(queue).ok_or_else(closed)?;
        queue.send(job).await.map_err(|_| closed())?;
        drop(queue);
        answer.await.unwrap_or_else(|_| {
            Err(JournalError::Unknown(
                "the task that writes ended before it answered".to_owned(),
            ))
        })
    }

    /// Queues a write of its own and waits for its commit.
    async fn write<W: Write>(&self, queue: Queue, write: W) -> Result<W::Answer, JournalError> {
        let (pending, answer) = Pending::new(write);
        self.ask(queue, Job::Other(Box::new(pending)), answer).await
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // The tasks that write end with their queues; this one waits for ever.
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hints) = tasks.and_then(|tasks| tasks.hints) {
            hints.abort();
        }
    }
}
