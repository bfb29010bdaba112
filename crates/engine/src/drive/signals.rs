//! What reaches a run from outside while it is driven: commands of its inbox, and the drain of its owner.

use portolan_journal::{Command, InboxEntry, JournalStore, RunRef, RunSignal};
use std::sync::Arc;
use tokio::sync::watch;

/// Tells the drives of an owner to give their runs back. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StopSwitch(Arc<watch::Sender<bool>>);

impl Default for StopSwitch {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl StopSwitch {
    /// Asks the drives to give back their runs after the step in flight.
    pub fn drain(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was asked.
    pub fn is_draining(&self) -> bool {
        *self.0.borrow()
    }
}

/// The signals of one run.
pub(super) struct Signals {
    journal: Arc<dyn JournalStore>,
    run: RunRef,
    hub: watch::Receiver<RunSignal>,
    commands_seen: u64,
    stop: StopSwitch,
    cancel: Option<InboxEntry>,
    cancel_taken: bool,
}

impl Signals {
    pub(super) fn new(journal: Arc<dyn JournalStore>, run: RunRef, stop: StopSwitch) -> Self {
        let hub = journal.hub().follow(run);
        Self {
            journal,
            run,
            hub,
            commands_seen: 0,
            stop,
            cancel: None,
            cancel_taken: false,
        }
    }

    /// Takes note of commands that an append or a read found.
    pub(super) fn take_inbox(&mut self, inbox: &[InboxEntry]) {
        for entry in inbox {
            match entry.command {
                Command::Cancel => self.cancel = Some(entry.clone()),
            }
        }
    }

    pub(super) const fn is_cancelled(&self) -> bool {
        self.cancel.is_some()
    }

    /// The cancel, once.
    pub(super) fn take_cancel(&mut self) -> Option<InboxEntry> {
        if std::mem::replace(&mut self.cancel_taken, self.cancel.is_some()) {
            None
        } else {
            self.cancel.clone()
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.stop.is_draining()
    }

    /// Reads the inbox if a command was announced since it was last read.
    pub(super) async fn look(&mut self) {
        let commands = self.hub.borrow_and_update().commands;
        // A read that fails is no command; the next append, renewal or look finds what waits.
        if commands != self.commands_seen
            && let Ok(inbox) = self.journal.inbox(self.run).await
        {
            self.commands_seen = commands;
            self.take_inbox(&inbox);
        }
    }

    /// Completes when the run is cancelled. It is cancel-safe: a command that was seen is kept.
    pub(super) async fn cancelled(&mut self) {
        loop {
            self.look().await;
            if self.cancel.is_some() {
                return;
            }
            if self.hub.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
