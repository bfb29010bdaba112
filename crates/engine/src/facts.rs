//! What a journal already knows about the steps of its run.

use portolan_core::{
    digest::Digest,
    event::{Event, Recorded, RunQueued, RunStarted, StepCompleted, StepFailed},
    failure::RunFailure,
    ids::{Attempt, Seq, StepId},
    manifest::ManifestChange,
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::Progress;
use std::collections::{HashMap, VecDeque};

/// Why a journal cannot be gone on from.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// A place is missing or doubled.
    #[error("the journal has {found:?} where {expected:?} belongs")]
    NotDense {
        /// What belongs there.
        expected: Seq,
        /// What is there.
        found: Seq,
    },
    /// A payload cannot be read.
    #[error("event {seq:?} cannot be read")]
    Event {
        /// Its place.
        seq: Seq,
        /// Why.
        #[source]
        source: portolan_core::event::EventError,
    },
    /// An event cannot follow what is before it.
    #[error("event {seq:?} does not fit")]
    Fold {
        /// Its place.
        seq: Seq,
        /// Why.
        #[source]
        source: portolan_journal::fold::FoldError,
    },
    /// It does not begin as a journal does.
    #[error("the journal does not begin with run_queued")]
    Beginning,
}

/// How a step ended.
#[derive(Debug, Clone)]
pub enum StepOutcome {
    /// It is answered.
    Completed(Box<StepCompleted>),
    /// It failed for good.
    Failed(StepFailed),
}

/// A dispatch that was intended.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch {
    /// The attempt.
    pub attempt: Attempt,
    /// What was asked.
    pub digest: Digest,
    /// What was reserved for it.
    pub reserved: NanoUsd,
}

/// What is known about one step.
#[derive(Debug, Clone, Default)]
pub struct StepFacts {
    /// When it was first intended.
    pub first_at: Timestamp,
    /// The last intended dispatch.
    pub dispatch: Option<Dispatch>,
    /// Committed retryable failures.
    pub retryable_failures: u32,
    /// How often the run waited for this step without a worker.
    pub waits: u32,
    /// The next attempt has to wait until then.
    pub not_before: Option<Timestamp>,
    /// How it ended, and when.
    pub outcome: Option<(StepOutcome, Timestamp)>,
}

/// The end of a run.
#[derive(Debug, Clone)]
pub enum Terminal {
    /// With a value.
    Succeeded,
    /// Without one.
    Failed(RunFailure),
}

/// A journal, understood.
#[derive(Debug)]
pub struct Facts {
    /// The request.
    pub queued: Box<RunQueued>,
    /// The configuration, if it is fixed.
    pub started: Option<Box<RunStarted>>,
    /// The fold.
    pub progress: Progress,
    /// The last place.
    pub last_seq: Seq,
    /// When the last event was written.
    pub last_at: Timestamp,
    /// What the steps changed in the workspace, in order.
    pub file_changes: Vec<ManifestChange>,
    /// Refused results that are journaled.
    pub rejections: u32,
    /// Whether a cancel is journaled.
    pub cancel_journaled: bool,
    /// How the run ended.
    pub terminal: Option<(Terminal, Timestamp)>,
    steps: HashMap<StepId, StepFacts>,
    order: VecDeque<(StepId, Timestamp)>,
}

impl Facts {
    /// Reads a whole journal.
    pub fn read(records: &[Recorded]) -> Result<Self, FactsError> {
        let Some(first) = records.first() else {
            return Err(FactsError::Beginning);
        };
        let Event::RunQueued(queued) = decode(first)? else {
            return Err(FactsError::Beginning);
        };
        let mut facts = Self::fresh(queued, first.at);
        facts.last_seq = Seq::ZERO;
        for record in records {
            facts.take(record)?;
        }
        Ok(facts)
    }

    /// The facts of a run that was only admitted.
    pub fn fresh(queued: Box<RunQueued>, at: Timestamp) -> Self {
        Self {
            queued,
            started: None,
            progress: Progress::default(),
            last_seq: Seq(1),
            last_at: at,
            file_changes: Vec::new(),
            rejections: 0,
            cancel_journaled: false,
            terminal: None,
            steps: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    fn take(&mut self, record: &Recorded) -> Result<(), FactsError> {
        let expected = self.last_seq.next();
        if record.seq != expected {
            return Err(FactsError::NotDense {
                expected,
                found: record.seq,
            });
        }
        let event = decode(record)?;
        self.progress
            .apply(&event, record.at, record.step)
            .map_err(|source| FactsError::Fold {
                seq: record.seq,
                source,
            })?;
        self.last_seq = record.seq;
        self.last_at = record.at;
        match event {
            Event::RunStarted(started) => self.started = Some(started),
            Event::StepStarted(started) => {
                let dispatch = Dispatch {
                    attempt: record.attempt.unwrap_or(Attempt::FIRST),
                    digest: started.request_hash,
                    reserved: started.reserved_usd.unwrap_or_default(),
                };
                if let Some(facts) = self.step_of(record) {
                    facts.dispatch = Some(dispatch);
                }
            }
            Event::StepCompleted(done) => {
                self.file_changes.extend(done.files.clone());
                if let Some(facts) = self.step_of(record) {
                    facts.outcome = Some((StepOutcome::Completed(Box::new(done)), record.at));
                }
            }
            Event::StepFailed(failed) => {
                if let Some(facts) = self.step_of(record) {
                    if failed.retryable {
                        facts.retryable_failures += 1;
                        facts.not_before = failed.not_before;
                        facts.dispatch = None;
                    } else {
                        facts.outcome = Some((StepOutcome::Failed(failed), record.at));
                    }
                }
            }
            Event::ResultRejected(_) => self.rejections += 1,
            Event::RunCancelRequested(_) => self.cancel_journaled = true,
            Event::RunSucceeded(_) => self.terminal = Some((Terminal::Succeeded, record.at)),
            Event::RunFailed(ended) | Event::RunCancelled(ended) => {
                self.terminal = Some((Terminal::Failed(ended.error), record.at));
            }
            Event::RunWaiting(_) => {
                let last = self.order.back().map(|(step, _)| *step);
                if let Some(facts) = last.and_then(|step| self.steps.get_mut(&step)) {
                    facts.waits += 1;
                }
            }
            Event::RunQueued(_)
            | Event::RunRecovered(_)
            | Event::RunResumed(_)
            | Event::StepAmbiguous(_)
            | Event::ArtifactCreated(_)
            | Event::ArtifactModified(_)
            | Event::ArtifactDeleted(_)
            | Event::Unknown { .. } => {}
        }
        Ok(())
    }

    fn step_of(&mut self, record: &Recorded) -> Option<&mut StepFacts> {
        let step = record.step?;
        let order = &mut self.order;
        Some(self.steps.entry(step).or_insert_with(|| {
            order.push_back((step, record.at));
            StepFacts {
                first_at: record.at,
                ..StepFacts::default()
            }
        }))
    }

    /// Whether a step with facts is still ahead. A boundary before it was passed and is not judged again.
    pub fn is_ahead(&self) -> bool {
        !self.order.is_empty()
    }

    /// When the next step with facts was intended.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.order.front().map(|(_, at)| *at)
    }

    /// The step with facts that the machine has to come to next.
    pub fn next_step(&self) -> Option<StepId> {
        self.order.front().map(|(step, _)| *step)
    }

    /// Takes what is known about a step.
    pub fn visit(&mut self, step: StepId) -> Option<StepFacts> {
        if self.order.front().is_some_and(|(next, _)| *next == step) {
            self.order.pop_front();
        }
        self.steps.remove(&step)
    }

    /// The last step, if it was dispatched and nobody knows what came of it.
    pub fn in_doubt(&self) -> Option<(StepId, Dispatch)> {
        let (step, _) = self.order.back()?;
        let facts = self.steps.get(step)?;
        facts
            .outcome
            .is_none()
            .then_some(facts.dispatch)
            .flatten()
            .map(|dispatch| (*step, dispatch))
    }
}

fn decode(record: &Recorded) -> Result<Event, FactsError> {
    record.event().map_err(|source| FactsError::Event {
        seq: record.seq,
        source,
    })
}
