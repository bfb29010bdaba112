//! Writes the journal of one run: gathers events, folds them, and flushes them under the owner's epoch.

use crate::active::ActiveTime;
use portolan_core::{
    event::{Event, EventError},
    faults::{self, Fault, Point},
    ids::{Attempt, Epoch, Seq, StepId},
    money::NanoUsd,
    time::{Clock, Timestamp},
};
use portolan_journal::{
    Append, Appended, InboxEntry, InboxId, JournalError, JournalStore, NewEvent, Progress, Release, RunRef,
    ScopeKey, Settlement, TopUp, faulty, fold::FoldError,
};
use std::sync::Arc;

/// How often an append that was surely not committed is tried again before the run is given back.
const MAX_TRIES: u32 = 5;
/// The first pause between such tries, in milliseconds; it doubles.
const FIRST_PAUSE_MS: u64 = 20;

/// Why a run cannot be written by this owner any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// Somebody else owns it.
    #[error("another owner has taken the run")]
    Fenced,
    /// The store does not answer.
    #[error("the journal cannot be written")]
    Lost(#[source] JournalError),
    /// An event cannot be encoded.
    #[error("an event cannot be encoded")]
    Encode(#[source] EventError),
    /// An event does not fit what is before it: a defect.
    #[error("an event does not fit the journal")]
    Fold(#[source] FoldError),
}

/// What became of a flush.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Everything is durable.
    Done,
    /// All but the top-up and its event.
    TopUpRefused(ScopeKey),
}

/// More money for the next call, with the event that needs it.
#[derive(Debug)]
pub(crate) struct NextCall {
    pub(crate) amount: NanoUsd,
    pub(crate) event: Event,
    pub(crate) step: (StepId, Attempt),
}

/// The writer of one run under one epoch.
#[derive(Debug)]
pub(crate) struct Writer {
    journal: Arc<dyn JournalStore>,
    clock: Arc<dyn Clock>,
    active: ActiveTime,
    run: RunRef,
    epoch: Epoch,
    progress: Progress,
    last_seq: Seq,
    events: Vec<NewEvent>,
    settle: Option<Settlement>,
    consumed: Vec<InboxId>,
    advances: bool,
    /// When the first event was gathered since the last flush. One append has one moment, and the fold that travels with
    /// it must name the very moment that its rows will have.
    gathered_at: Option<Timestamp>,
    /// What a test wants the next append to come to.
    pretended: Option<Fault>,
    /// Commands that the last flush found waiting.
    pub(crate) inbox: Vec<InboxEntry>,
}

impl Writer {
    pub(crate) fn new(
        journal: Arc<dyn JournalStore>,
        clock: Arc<dyn Clock>,
        active: ActiveTime,
        (run, epoch): (RunRef, Epoch),
        (progress, last_seq): (Progress, Seq),
    ) -> Self {
        Self {
            journal,
            clock,
            active,
            run,
            epoch,
            progress,
            last_seq,
            events: Vec::new(),
            settle: None,
            consumed: Vec::new(),
            advances: false,
            gathered_at: None,
            pretended: None,
            inbox: Vec::new(),
        }
    }

    /// The fold with everything that is gathered.
    pub(crate) const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Gathers an event.
    pub(crate) fn push(&mut self, event: &Event, step: Option<(StepId, Attempt)>) -> Result<(), WriteError> {
        let at = *self.gathered_at.get_or_insert_with(|| self.clock.now());
        self.progress
            .apply(event, at, step.map(|(step, _)| step))
            .map_err(WriteError::Fold)?;
        self.events
            .push(NewEvent::encode(event, step).map_err(WriteError::Encode)?);
        self.advances |= match event {
            Event::StepCompleted(_) | Event::StepFailed(_) | Event::RunResumed(_) => true,
            Event::RunQueued(_)
            | Event::RunStarted(_)
            | Event::RunRecovered(_)
            | Event::RunWaiting(_)
            | Event::RunCancelRequested(_)
            | Event::StepStarted(_)
            | Event::StepAmbiguous(_)
            | Event::ResultRejected(_)
            | Event::ArtifactCreated(_)
            | Event::ArtifactModified(_)
            | Event::ArtifactDeleted(_)
            | Event::RunSucceeded(_)
            | Event::RunFailed(_)
            | Event::RunCancelled(_)
            | Event::Unknown { .. } => false,
        };
        Ok(())
    }

    /// Settles the answered call with the next flush.
    pub(crate) const fn settle(&mut self, reserved: NanoUsd, actual: NanoUsd) {
        let earlier = match self.settle {
            Some(earlier) => earlier,
            None => Settlement {
                reserved: NanoUsd::ZERO,
                actual: NanoUsd::ZERO,
            },
        };
        self.settle = Some(Settlement {
            reserved: earlier.reserved.saturating_add(reserved),
            actual: earlier.actual.saturating_add(actual),
        });
    }

    /// Answers a command with the next flush.
    pub(crate) fn consume(&mut self, entry: InboxId) {
        self.consumed.push(entry);
    }

    /// Comes by a point. What a test pretends there is what the next append comes to.
    pub(crate) async fn at(&mut self, point: Point) {
        self.pretended = faults::at(point).await.or(self.pretended);
    }

    /// Makes everything that is gathered durable, and the next call's intent with it if its money is granted.
    pub(crate) async fn flush(
        &mut self,
        next: Option<NextCall>,
        release: Option<Release>,
    ) -> Result<Flushed, WriteError> {
        let at = self.gathered_at.take().unwrap_or_else(|| self.clock.now());
        let with_next = match &next {
            None => None,
            Some(next) => {
                let mut progress = self.progress.clone();
                progress
                    .apply(&next.event, at, Some(next.step.0))
                    .map_err(WriteError::Fold)?;
                let event = NewEvent::encode(&next.event, Some(next.step)).map_err(WriteError::Encode)?;
                Some((next.amount, event, progress))
            }
        };
        let top_up = with_next.map(|(amount, event, progress)| TopUp {
            amount,
            events: vec![event],
            progress,
        });
        let append = Append {
            run: self.run,
            epoch: self.epoch,
            after: Some(self.last_seq),
            at,
            active_ms: self.active.used_ms(),
            events: std::mem::take(&mut self.events),
            progress: self.progress.clone(),
            advances: std::mem::take(&mut self.advances),
            settle: self.settle.take(),
            top_up,
            consumed: std::mem::take(&mut self.consumed),
            release,
        };
        let granted = append.top_up.as_ref().map(|top_up| top_up.progress.clone());
        let pretended = self.pretended.take();
        match self.commit(append, pretended).await? {
            Appended::Committed { last_seq, inbox } => {
                self.last_seq = last_seq;
                self.inbox = inbox;
                if let Some(progress) = granted {
                    self.progress = progress;
                }
                Ok(Flushed::Done)
            }
            Appended::TopUpRefused {
                last_seq,
                inbox,
                scope,
            } => {
                self.last_seq = last_seq;
                self.inbox = inbox;
                Ok(Flushed::TopUpRefused(scope))
            }
            Appended::Fenced => Err(WriteError::Fenced),
            // `commit` has read back what an append that it met had written.
            Appended::Elsewhere => Err(WriteError::Lost(JournalError::Corrupt(
                "the journal grew by an append that nobody made".to_owned(),
            ))),
        }
    }

    /// Appends, and resolves outcomes that are not known by reading back.
    async fn commit(&self, append: Append, mut pretended: Option<Fault>) -> Result<Appended, WriteError> {
        let mut pause_ms = FIRST_PAUSE_MS;
        let mut last = JournalError::NotCommitted("it was never tried".to_owned());
        for _ in 0..MAX_TRIES {
            match self.append(append.clone(), pretended.take()).await {
                // An earlier try of this very append has landed late.
                Ok(Appended::Elsewhere) => match self.read_back(&append).await {
                    Ok(Some(appended)) => return Ok(appended),
                    Ok(None) => return Ok(Appended::Elsewhere),
                    Err(reading @ JournalError::Corrupt(_)) => return Err(WriteError::Lost(reading)),
                    Err(reading) => last = reading,
                },
                Ok(appended) => return Ok(appended),
                Err(error @ JournalError::Corrupt(_)) => return Err(WriteError::Lost(error)),
                Err(error @ JournalError::NotCommitted(_)) => last = error,
                Err(error @ JournalError::Unknown(_)) => match self.read_back(&append).await {
                    Ok(Some(appended)) => return Ok(appended),
                    Ok(None) => last = error,
                    Err(reading) => last = reading,
                },
            }
            self.clock.sleep_ms(pause_ms).await;
            pause_ms = pause_ms.saturating_mul(2);
        }
        Err(WriteError::Lost(last))
    }

    async fn append(&self, append: Append, pretended: Option<Fault>) -> Result<Appended, JournalError> {
        if pretended.is_some_and(Fault::is_error) {
            return Err(faulty::not_committed());
        }
        let appended = self.journal.append(append).await?;
        match pretended.or(faults::at(Point::AppendCommitted).await) {
            Some(_) => Err(faulty::unknown()),
            None => Ok(appended),
        }
    }

    /// What became of an append whose outcome is not known; `None`: it was not committed.
    async fn read_back(&self, append: &Append) -> Result<Option<Appended>, JournalError> {
        let Some(row) = self.journal.run(self.run).await? else {
            return Ok(None);
        };
        if row.epoch != self.epoch {
            return Ok(Some(Appended::Fenced));
        }
        let events = append.events.len() as u64;
        let with_top_up = events
            + append
                .top_up
                .as_ref()
                .map_or(0, |top_up| top_up.events.len() as u64);
        let written = row.last_seq.0.saturating_sub(self.last_seq.0);
        let inbox = self.journal.inbox(self.run).await?;
        if written == 0 && with_top_up > 0 {
            Ok(None)
        } else if written == with_top_up {
            Ok(Some(Appended::Committed {
                last_seq: row.last_seq,
                inbox,
            }))
        } else if written == events {
            Ok(Some(Appended::TopUpRefused {
                last_seq: row.last_seq,
                inbox,
                scope: ScopeKey::Tenant,
            }))
        } else {
            Err(JournalError::Corrupt(
                "the journal grew by an append that nobody made".to_owned(),
            ))
        }
    }
}

#[cfg(test)]
mod tests;
