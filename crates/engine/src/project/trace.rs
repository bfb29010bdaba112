//! The loop's trace of a run: its journal, folded through the same machine.

use crate::{
    Configuration,
    drive::recorded::{recorded_failure, recorded_outcome, recorded_reply},
    facts::{Facts, FactsError, StepOutcome, Terminal},
};
use portolan_agent::machine::{Check, Step, Stop, Unanswered, Verdict, start};
use portolan_core::{
    artifact::Artifact,
    event::{Event, Recorded},
    failure::{FailureKind, RunFailure},
    ids::StepId,
    limits::LimitKind,
    time::Timestamp,
    trace::TraceEvent,
};
use std::sync::Arc;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The journal cannot be read.
    #[error("the journal cannot be read")]
    Facts(#[from] FactsError),
    /// The configuration cannot be read.
    #[error("the configuration of the run cannot be read")]
    Configuration(#[source] serde_json::Error),
    /// The journal and the machine disagree.
    #[error("the journal and the machine disagree: {0}")]
    Diverged(String),
}

/// The trace so far. A run whose configuration is not fixed has none.
pub fn trace(records: &[Recorded]) -> Result<Vec<TraceEvent>, TraceError> {
    let facts = Facts::read(records)?;
    let Some(started) = facts.started.clone() else {
        return Ok(Vec::new());
    };
    let configuration: Configuration =
        serde_json::from_str(started.configured.get()).map_err(TraceError::Configuration)?;
    let schema = &configuration.configured.result_schema;
    let codec = crate::prepare::codec(schema).map_err(|failure| TraceError::Diverged(failure.message))?;
    let artifacts = evidence(records)?;
    let mut replay = Replay { facts, artifacts };
    let mut step = Step::Check(start(Arc::new(configuration.configured), codec, started.began_at));
    loop {
        step = match replay.answer(step)? {
            Answer::Next(step) => step,
            Answer::Edge(trace) => return Ok(trace),
        };
    }
}

/// What the journal says about the changed files at the end.
fn evidence(records: &[Recorded]) -> Result<Result<Vec<Artifact>, String>, TraceError> {
    if let Some(last) = records.last() {
        let event = last.event().map_err(|source| FactsError::Event {
            seq: last.seq,
            source,
        })?;
        let unknown = match event {
            Event::RunSucceeded(ended) => ended.artifacts_unknown,
            Event::RunFailed(ended) | Event::RunCancelled(ended) => ended.artifacts_unknown,
            _ => None,
        };
        if let Some(unknown) = unknown {
            return Ok(Err(unknown));
        }
    }
    let artifacts = super::artifacts(records).map_err(|source| FactsError::Event {
        seq: portolan_core::ids::Seq::ZERO,
        source,
    })?;
    Ok(Ok(artifacts))
}

enum Answer {
    Next(Step),
    /// The journal says no more.
    Edge(Vec<TraceEvent>),
}

struct Replay {
    facts: Facts,
    artifacts: Result<Vec<Artifact>, String>,
}

impl Replay {
    fn answer(&mut self, step: Step) -> Result<Answer, TraceError> {
        Ok(match step {
            Step::Check(check) => self.check(check),
            Step::Model(need) => match self.outcome(need.step()) {
                Some((StepOutcome::Completed(done), at)) => {
                    let reply = recorded_reply(&done).map_err(TraceError::Diverged)?;
                    Answer::Next(need.reply(Ok(reply), at))
                }
                Some((StepOutcome::Failed(failed), at)) => {
                    let unanswered = recorded_failure(need.step(), &failed, self.stop());
                    Answer::Next(need.reply(Err(unanswered), at))
                }
                None => match self.terminal_failure() {
                    Some((failure, at)) => Answer::Next(need.reply(Err(Unanswered::Refused(failure)), at)),
                    None => Answer::Edge(need.trace().to_vec()),
                },
            },
            Step::Tool(need) => match self.outcome(need.step()) {
                Some((StepOutcome::Completed(done), at)) => {
                    let outcome = recorded_outcome(&done).map_err(TraceError::Diverged)?;
                    Answer::Next(need.outcome(Ok(outcome), at))
                }
                Some((StepOutcome::Failed(_), at)) => {
                    Answer::Next(need.outcome(Err(Unanswered::Aborted(self.stop())), at))
                }
                None => match self.terminal_failure() {
                    Some((failure, at)) => Answer::Next(need.outcome(Err(Unanswered::Refused(failure)), at)),
                    None => Answer::Edge(need.trace().to_vec()),
                },
            },
            Step::Evidence(need) => match self.facts.terminal {
                Some((_, at)) => Answer::Next(Step::Done(need.artifacts(self.artifacts.clone(), at))),
                None => Answer::Edge(need.trace().to_vec()),
            },
            Step::Done(done) => Answer::Edge(done.trace().to_vec()),
        })
    }

    /// A boundary with facts behind it was passed; the last one is where a terminal event says that it stopped.
    fn check(&self, check: Check) -> Answer {
        if let Some(at) = self.facts.next_at() {
            return Answer::Next(check.verdict(Verdict::Go, at));
        }
        match &self.facts.terminal {
            None => Answer::Edge(check.trace().to_vec()),
            Some((Terminal::Failed(failure), at)) if failure.ordinal == Some(check.ordinal()) => {
                let verdict = match self.stop() {
                    Stop::Cancelled => Verdict::Cancelled,
                    Stop::OutOfTime => Verdict::OutOfTime,
                };
                Answer::Next(check.verdict(verdict, *at))
            }
            Some((_, at)) => Answer::Next(check.verdict(Verdict::Go, *at)),
        }
    }

    fn outcome(&mut self, step: StepId) -> Option<(StepOutcome, Timestamp)> {
        self.facts.visit(step)?.outcome
    }

    fn terminal_failure(&self) -> Option<(RunFailure, Timestamp)> {
        match &self.facts.terminal {
            Some((Terminal::Failed(failure), at)) => Some((failure.clone(), *at)),
            Some((Terminal::Succeeded, _)) | None => None,
        }
    }

    /// What stopped the run, if something stopped it.
    fn stop(&self) -> Stop {
        match &self.facts.terminal {
            Some((Terminal::Failed(failure), _))
                if failure.kind == FailureKind::LimitExhausted
                    && failure.limit == Some(LimitKind::WallTime) =>
            {
                Stop::OutOfTime
            }
            Some(_) | None => Stop::Cancelled,
        }
    }
}
