//! Drives one run: folds what its journal knows through the machine, then goes on at the live edge.

mod end;
mod model;
mod pause;
pub(crate) mod recorded;
mod signals;
mod spend;
mod start;
mod tool;
mod workspace;

use crate::{
    Configuration,
    active::ActiveTime,
    facts::Facts,
    lease::Lease,
    ports::{Deps, Equipment},
    writer::{WriteError, Writer},
};
use portolan_agent::machine::{Check, Step, Stop, Verdict};
use portolan_core::{
    agent::AgentVersion,
    event::{Event, ResultRejected, RunCancelRequested, RunQueued},
    failure::{FailureKind, RunFailure},
    faults::{self, Point},
    ids::Epoch,
    manifest::Manifest,
    model::Model,
    price::Price,
    time::Timestamp,
    trace::TraceKind,
};
use portolan_journal::{JournalError, RunRef};
use signals::Signals;
pub use signals::StopSwitch;
use spend::InputBytes;
use std::sync::Arc;

/// A run to drive.
#[derive(Debug)]
pub struct Launch {
    /// Which run.
    pub run: RunRef,
    /// The generation under which it is driven.
    pub epoch: Epoch,
    /// How often it was re-driven since it last got on.
    pub redrives: u32,
    /// How long this owner holds it.
    pub lease: Lease,
    /// What is known without reading: a run that was admitted a moment ago.
    pub fresh: Option<Fresh>,
}

/// A run that was admitted a moment ago.
#[derive(Debug)]
pub struct Fresh {
    /// Its request.
    pub queued: Box<RunQueued>,
    /// Its agent.
    pub agent: Arc<AgentVersion>,
    /// When it was admitted.
    pub at: Timestamp,
}

/// How a drive ended.
#[derive(Debug)]
pub enum DriveEnd {
    /// The run has ended.
    Ended,
    /// The run waits and holds no worker.
    Waiting {
        /// When it is due.
        until: Timestamp,
    },
    /// The run was given back because this owner drains.
    Released,
    /// Somebody else owns the run.
    Fenced,
    /// The store cannot be used: the run is to be given back when it can.
    Lost(JournalError),
    /// The run does not exist.
    Missing,
    /// A defect of the engine: counts as a crash, and ends in quarantine if it repeats.
    Defect(String),
}

/// Why a drive cannot go on, without being the end of the run.
#[derive(Debug)]
enum Interrupt {
    Write(WriteError),
    Read(JournalError),
    Waiting(Timestamp),
    Released,
    /// The run ends with this failure, outside of the machine.
    Fail(RunFailure),
}

impl From<WriteError> for Interrupt {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

/// One run under one owner.
struct Drive<'a> {
    deps: &'a Deps,
    run: RunRef,
    configuration: Configuration,
    equipment: Equipment,
    model: Arc<dyn Model>,
    price: Option<Price>,
    writer: Writer,
    facts: Facts,
    active: ActiveTime,
    lease: Lease,
    signals: Signals,
    input: InputBytes,
    /// The workspace at the start of the run.
    baseline: Manifest,
    /// The workspace after the last committed step.
    files: Manifest,
    /// Whether the files are still to be put back: a tool step in doubt decides about them.
    restore_owed: bool,
    /// How much of the machine's trace was looked at.
    trace_seen: usize,
    /// Refused results that the journal has already.
    rejections_known: u32,
}

/// Drives a run until it ends, waits, is given back or is lost. `active` is shared with whoever renews the lease.
pub async fn drive(
    deps: &Deps,
    launch: Launch,
    stop: &StopSwitch,
    active: impl FnOnce(ActiveTime),
) -> DriveEnd {
    let run = launch.run;
    let end = match start::begin(deps, launch, stop, active).await {
        Ok(start::Begun::Drive(drive, began_at)) => drive.to_the_end(began_at).await,
        Ok(start::Begun::Over(end)) => end,
        Err(interrupt) => end_of(interrupt),
    };
    if matches!(end, DriveEnd::Ended) {
        faults::at(Point::EndBeforeDiscard).await;
        deps.preparer.discard(run);
    }
    end
}

fn end_of(interrupt: Interrupt) -> DriveEnd {
    match interrupt {
        Interrupt::Write(WriteError::Fenced) => DriveEnd::Fenced,
        Interrupt::Write(WriteError::Lost(error)) | Interrupt::Read(error) => DriveEnd::Lost(error),
        Interrupt::Write(error @ (WriteError::Encode(_) | WriteError::Fold(_))) => {
            DriveEnd::Defect(error.to_string())
        }
        Interrupt::Waiting(until) => DriveEnd::Waiting { until },
        Interrupt::Released => DriveEnd::Released,
        Interrupt::Fail(failure) => DriveEnd::Defect(failure.message),
    }
}

impl Drive<'_> {
    /// The loop: the machine says what comes next, the journal or the world answers.
    async fn to_the_end(mut self: Box<Self>, began_at: Timestamp) -> DriveEnd {
        match self.steps(began_at).await {
            Ok(()) => DriveEnd::Ended,
            Err(Interrupt::Fail(failure)) => match self.fail_outside(failure).await {
                Ok(()) => DriveEnd::Ended,
                Err(interrupt) => end_of(interrupt),
            },
            Err(interrupt) => end_of(interrupt),
        }
    }

    async fn steps(&mut self, began_at: Timestamp) -> Result<(), Interrupt> {
        let configured = Arc::new(self.configuration.configured.clone());
        let codec = crate::prepare::codec(&configured.result_schema).map_err(Interrupt::Fail)?;
        let mut step = Step::Check(portolan_agent::machine::start(configured, codec, began_at));
        loop {
            step = match step {
                Step::Check(check) => self.check(check).await?,
                Step::Model(need) => self.model(need).await?,
                Step::Tool(need) => self.tool(need).await?,
                Step::Evidence(need) => Step::Done(self.evidence(need).await?),
                Step::Done(done) => return self.finish(&done).await,
            };
            if self.journal_rejections(&step)? {
                self.writer.at(Point::ResultRefused).await;
            }
        }
    }

    /// A boundary with recorded facts behind it was passed. Only at the live edge is it judged.
    async fn check(&mut self, check: Check) -> Result<Step, Interrupt> {
        if let Some(at) = self.facts.next_at() {
            return Ok(check.verdict(Verdict::Go, at));
        }
        self.deps
            .observer
            .before_check(self.run, check.boundary(), check.ordinal());
        self.signals.take_inbox(&self.writer.inbox);
        self.signals.look().await;
        let verdict = if self.signals.is_cancelled() {
            self.journal_cancel()?;
            Verdict::Cancelled
        } else if self.is_out_of_time() {
            Verdict::OutOfTime
        } else {
            Verdict::Go
        };
        Ok(check.verdict(verdict, self.deps.clock.now()))
    }

    fn is_out_of_time(&self) -> bool {
        let wall_time = self.configuration.configured.limits.wall_time_ms;
        wall_time.is_some_and(|wall_time_ms| self.active.left_ms(wall_time_ms) == 0)
    }

    /// Writes down that a cancel was noticed; the command is answered with it.
    fn journal_cancel(&mut self) -> Result<(), Interrupt> {
        if let Some(entry) = self.signals.take_cancel()
            && !self.facts.cancel_journaled
        {
            self.facts.cancel_journaled = true;
            self.writer.push(
                &Event::RunCancelRequested(RunCancelRequested {
                    requested_at: entry.at,
                }),
                None,
            )?;
            self.writer.consume(entry.id);
        }
        Ok(())
    }

    /// What ended an effect in flight, journaled if it was a cancel.
    fn note_stop(&mut self, stop: Stop) -> Result<(), Interrupt> {
        match stop {
            Stop::Cancelled => self.journal_cancel(),
            Stop::OutOfTime => Ok(()),
        }
    }

    /// Turns refused results of the machine's trace into events, apart from those that the journal has. Whether there were any.
    fn journal_rejections(&mut self, step: &Step) -> Result<bool, Interrupt> {
        let mut any = false;
        let trace = step.trace();
        for event in trace.get(self.trace_seen..).unwrap_or_default() {
            if let TraceKind::ResultRejected { call_id, error } = &event.kind {
                if self.rejections_known > 0 {
                    self.rejections_known -= 1;
                    continue;
                }
                let rejected = ResultRejected {
                    call_id: call_id.clone(),
                    error: error.clone(),
                };
                self.writer.push(&Event::ResultRejected(rejected), None)?;
                any = true;
            }
        }
        self.trace_seen = trace.len();
        Ok(any)
    }

    /// Before anything leaves this process: stops if the lease is over, because somebody else may be at it by now.
    fn hold_lease(&self) -> Result<(), Interrupt> {
        if self.lease.is_over(self.deps.clock.monotonic_us()) {
            return Err(Interrupt::Write(WriteError::Fenced));
        }
        Ok(())
    }

    /// At the live edge, before a new effect: gives the run back if this owner drains.
    async fn give_back_if_draining(&mut self) -> Result<(), Interrupt> {
        if self.signals.is_draining() {
            let release = portolan_journal::Release { wake_at: None };
            self.writer.flush(None, Some(release)).await?;
            return Err(Interrupt::Released);
        }
        Ok(())
    }
}

/// The failure of a run whose journal and machine disagree.
fn diverged(message: String) -> Interrupt {
    Interrupt::Fail(RunFailure::new(FailureKind::ReplayDiverged, message))
}
