//! The writer: drains what waits, commits it as one transaction, answers.

use super::{
    StoreOpenError,
    batch::{Outcome, QueuedWrite, Tx},
    checkpoint::Checkpoints,
    write::Scopes,
};
use portolan_journal::Hub;
use rusqlite::{Connection, ErrorCode};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tokio::sync::mpsc;

/// Writes that share a commit at most.
const BATCH: usize = 512;

/// Owns the connection that writes.
pub(super) struct Writer {
    connection: Connection,
    scopes: Scopes,
    hub: Hub,
    checkpoints: Checkpoints,
    /// Set while the outcome of a commit is unknown. Nothing is read or written until a later commit settled it.
    suspect: Arc<AtomicBool>,
    /// Commits. Tests put one here that fails.
    commit: fn(&Connection) -> rusqlite::Result<()>,
}

/// How the writes of a group went.
enum Group {
    /// They were committed, or not, together.
    Ended(Outcome),
    /// One failed after it had written. Nothing was kept, and each has to be tried by itself.
    Poisoned,
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

impl Writer {
    pub(super) fn new(
        mut connection: Connection,
        hub: Hub,
        suspect: Arc<AtomicBool>,
        checkpoints: Checkpoints,
    ) -> Result<Self, StoreOpenError> {
        let scopes = Scopes::load(&connection)?;
        checkpoints.watch(&mut connection)?;
        Ok(Self {
            connection,
            scopes,
            hub,
            checkpoints,
            suspect,
            commit: |connection| run(connection, "COMMIT"),
        })
    }

    /// Runs until the queue is closed and drained, then gives the connection back for the last checkpoint.
    pub(super) fn start(
        mut self,
        mut queue: mpsc::Receiver<QueuedWrite>,
    ) -> io::Result<JoinHandle<Connection>> {
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                let mut waiting = Vec::with_capacity(BATCH);
                while queue.blocking_recv_many(&mut waiting, BATCH) > 0 {
                    self.write(std::mem::take(&mut waiting));
                    self.checkpoints.after_commit(&self.connection);
                }
                self.connection
            })
    }

    fn write(&mut self, mut writes: Vec<QueuedWrite>) {
        if self.suspect.load(Ordering::Acquire)
            && let Err(error) = self.settle()
        {
            let why = format!("the outcome of an earlier commit is not settled: {error}");
            return self.answer(writes, &Outcome::NotCommitted(why));
        }
        match self.group(&mut writes) {
            Group::Ended(outcome) => self.answer(writes, &outcome),
            Group::Poisoned => {
                for write in writes {
                    let mut alone = vec![write];
                    match self.group(&mut alone) {
                        Group::Ended(outcome) => self.answer(alone, &outcome),
                        // It keeps its own failure, and that is what it answers with.
                        Group::Poisoned => self.answer(alone, &Outcome::NotCommitted("it failed".to_owned())),
                    }
                }
            }
        }
    }

    fn answer(&self, writes: Vec<QueuedWrite>, outcome: &Outcome) {
        for write in writes {
            write.finish(outcome, &self.hub);
        }
    }

    /// One transaction.
    fn group(&mut self, writes: &mut [QueuedWrite]) -> Group {
        if let Err(error) = run(&self.connection, "BEGIN IMMEDIATE") {
            return Group::Ended(Outcome::NotCommitted(error.to_string()));
        }
        for write in writes {
            let before = self.connection.total_changes();
            let mut tx = Tx {
                connection: &self.connection,
                scopes: &mut self.scopes,
            };
            let applied = write.apply(&mut tx);
            // A write that failed before it changed anything hurts nobody. SQLite ends the transaction by itself when,
            // say, the disk is full.
            if !applied && (self.connection.is_autocommit() || self.connection.total_changes() != before) {
                return match self.roll_back() {
                    Ok(()) => Group::Poisoned,
                    Err(error) => Group::Ended(self.unknown(&error)),
                };
            }
        }
        match (self.commit)(&self.connection) {
            Ok(()) => Group::Ended(Outcome::Committed),
            Err(error) if nothing_was_written(&error) => match self.roll_back() {
                Ok(()) => Group::Ended(Outcome::NotCommitted(error.to_string())),
                Err(_) => Group::Ended(self.unknown(&error)),
            },
            Err(error) => Group::Ended(self.unknown(&error)),
        }
    }

    fn roll_back(&mut self) -> rusqlite::Result<()> {
        if !self.connection.is_autocommit() {
            run(&self.connection, "ROLLBACK")?;
        }
        self.scopes = Scopes::load(&self.connection)?;
        Ok(())
    }

    /// Notes that a commit may or may not have happened, and tries to settle it, so that whoever reads back reads what stays.
    fn unknown(&mut self, error: &rusqlite::Error) -> Outcome {
        self.suspect.store(true, Ordering::Release);
        tracing::error!(%error, "the outcome of a commit is unknown");
        if let Err(error) = self.settle() {
            tracing::error!(%error, "the store refuses everything until a commit succeeds");
        }
        Outcome::Unknown(error.to_string())
    }

    /// Commits something of no meaning. It lands behind the commit in question, or in its place: either way that one has an
    /// outcome now which a crash cannot turn around.
    fn settle(&mut self) -> rusqlite::Result<()> {
        self.roll_back()?;
        run(&self.connection, "BEGIN IMMEDIATE")?;
        run(
            &self.connection,
            "UPDATE barrier SET raised = raised + 1 WHERE id = 1",
        )?;
        (self.commit)(&self.connection)?;
        self.scopes = Scopes::load(&self.connection)?;
        self.suspect.store(false, Ordering::Release);
        Ok(())
    }
}

/// Whether a commit that failed like this has left nothing behind. Anything else may have reached the disk.
fn nothing_was_written(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ConstraintViolation)
    )
}

#[cfg(test)]
mod tests;
