//! Checkpoints: the write-ahead log folded into the database beside the commits, and kept short.

use super::StoreOpenError;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rusqlite::Connection;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

/// Pages after which the checkpointer is asked to fold: 8 MiB.
const FOLD_AFTER: i32 = 2_048;

/// Pages after which the writer waits for the rest to be folded, so that the log starts over: 32 MiB. Under a steady load
/// the checkpointer never meets the end of the log by itself.
const START_OVER_AFTER: i32 = 8_192;

/// Frames that the log has room for from the start: all that it holds before it starts over, and the group that is
/// committed meanwhile.
pub(super) const LOG_FRAMES: u64 = 8_192 + 512;

/// Pages after which the writer tries again to start over, if it met the checkpointer at work: 1 MiB.
const TRY_AGAIN_AFTER: i32 = 256;

/// The writer's side.
#[derive(Debug)]
pub(super) struct Checkpoints {
    pages: Arc<AtomicI32>,
    /// How often the checkpointer has begun or ended: odd while it is at work. Two cannot fold at once, and the second does
    /// not wait.
    folds: Arc<AtomicU64>,
    asked_at: i32,
    /// When the writer makes one itself.
    pub(super) start_over_at: i32,
    ask: Sender<()>,
}

/// Starts the thread that folds.
pub(super) fn start(connection: Connection) -> Result<(Checkpoints, JoinHandle<()>), io::Error> {
    let (ask, asked) = bounded(1);
    let folds: Arc<AtomicU64> = Arc::default();
    let counted = Arc::clone(&folds);
    let thread = std::thread::Builder::new()
        .name("store-checkpoint".to_owned())
        .spawn(move || fold(&connection, &asked, &counted))?;
    let checkpoints = Checkpoints {
        pages: Arc::default(),
        folds,
        asked_at: 0,
        start_over_at: START_OVER_AFTER,
        ask,
    };
    Ok((checkpoints, thread))
}

fn fold(connection: &Connection, asked: &Receiver<()>, folds: &AtomicU64) {
    while asked.recv().is_ok() {
        folds.fetch_add(1, Ordering::SeqCst);
        checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)");
        folds.fetch_add(1, Ordering::SeqCst);
    }
}

/// Makes a checkpoint; true if it did all that it was asked to. Failures are no danger: the log keeps everything, and only
/// grows.
fn checkpoint(connection: &Connection, sql: &str) -> bool {
    let done = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, bool>(0)));
    match done {
        Ok(was_busy) => {
            tracing::debug!(sql, was_busy, "checkpoint");
            !was_busy
        }
        Err(error) => {
            tracing::warn!(sql, %error, "a checkpoint failed");
            false
        }
    }
}

impl Checkpoints {
    /// Counts the pages of the log from the commits of this connection.
    pub(super) fn watch(&self, connection: &mut Connection) -> Result<(), StoreOpenError> {
        let pages = Arc::clone(&self.pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: i32| {
            pages.store(count, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(())
    }

    /// Asks for a checkpoint if the log has grown, and makes one if it is too long.
    pub(super) fn after_commit(&mut self, connection: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.asked_at {
            self.asked_at = 0;
            self.start_over_at = START_OVER_AFTER;
        }
        if pages >= self.start_over_at {
            let folds = self.folds.load(Ordering::SeqCst);
            if checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)") {
                self.asked_at = 0;
                self.start_over_at = START_OVER_AFTER;
                self.pages.store(0, Ordering::Relaxed);
            } else if folds % 2 == 1 || folds != self.folds.load(Ordering::SeqCst) {
                // It met the checkpointer, which is soon done.
                self.start_over_at = pages.saturating_add(TRY_AGAIN_AFTER);
            } else {
                // Somebody reads an old state for long. Every commit would wait for it in vain.
                self.start_over_at = pages.saturating_add(START_OVER_AFTER);
            }
        } else if pages - self.asked_at >= FOLD_AFTER {
            self.asked_at = pages;
            // One that is asked for already covers this one too.
            if let Err(TrySendError::Disconnected(())) = self.ask.try_send(()) {
                tracing::warn!("the checkpointer is gone; the write-ahead log grows");
            }
        }
    }
}

/// Folds everything at the end, when nobody else is connected, and leaves no log behind.
pub(super) fn last(connection: Connection) {
    checkpoint(&connection, "PRAGMA wal_checkpoint(TRUNCATE)");
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the database was not closed");
    }
}
