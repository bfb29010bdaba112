//! The journal as the one who answers the machine. The trace and the replay are both made of it.

use crate::{
    Configuration,
    drive::recorded::{recorded_failure, recorded_outcome, recorded_reply},
    facts::{Facts, StepOutcome, Terminal},
};
use portolan_agent::machine::{Check, Step, Stop, Unanswered, Verdict, start};
use portolan_core::{
    artifact::Artifact,
    event::{Event, EventError, Recorded},
    failure::FailureKind,
    ids::StepId,
    limits::LimitKind,
    time::Timestamp,
};
use std::sync::Arc;

/// What comes of asking a journal.
pub(crate) enum Answer {
    /// The machine goes on.
    Next(Step),
    /// The journal says no more, or the machine has ended.
    Edge(Step),
}

/// A journal that answers the machine.
pub(crate) struct Fold {
    pub(crate) facts: Facts,
    artifacts: Result<Vec<Artifact>, String>,
}

impl Fold {
    /// The machine at its beginning, and who answers it.
    pub(crate) fn begin(
        facts: Facts,
        records: &[Recorded],
        configuration: Configuration,
        began_at: Timestamp,
    ) -> Result<(Self, Step), String> {
        let schema = &configuration.configured.result_schema;
        let codec = crate::prepare::codec(schema).map_err(|failure| failure.message)?;
        let artifacts = evidence(records).map_err(|error| error.to_string())?;
        let step = Step::Check(start(Arc::new(configuration.configured), codec, began_at));
        Ok((Self { facts, artifacts }, step))
    }

    /// Answers the machine. An error says why a recorded answer is none.
    pub(crate) fn answer(&mut self, step: Step) -> Result<Answer, String> {
        Ok(match step {
            Step::Check(check) => self.check(check),
            Step::Model(need) => match self.outcome(need.step()) {
                Some((StepOutcome::Completed(done), at)) => {
                    let reply = recorded_reply(&done)?;
                    Answer::Next(need.reply(Ok(reply), at))
                }
                Some((StepOutcome::Failed(failed), at)) => {
                    let unanswered = recorded_failure(need.step(), &failed, self.stop());
                    Answer::Next(need.reply(Err(unanswered), at))
                }
                None => match self.gave_up() {
                    Some((unanswered, at)) => Answer::Next(need.reply(Err(unanswered), at)),
                    None => Answer::Edge(Step::Model(need)),
                },
            },
            Step::Tool(need) => match self.outcome(need.step()) {
                Some((StepOutcome::Completed(done), at)) => {
                    let outcome = recorded_outcome(&done)?;
                    Answer::Next(need.outcome(Ok(outcome), at))
                }
                Some((StepOutcome::Failed(_), at)) => {
                    Answer::Next(need.outcome(Err(Unanswered::Aborted(self.stop())), at))
                }
                None => match self.gave_up() {
                    Some((unanswered, at)) => Answer::Next(need.outcome(Err(unanswered), at)),
                    None => Answer::Edge(Step::Tool(need)),
                },
            },
            Step::Evidence(need) => match self.facts.terminal {
                Some((_, at)) => Answer::Next(Step::Done(need.artifacts(self.artifacts.clone(), at))),
                None => Answer::Edge(Step::Evidence(need)),
            },
            Step::Done(done) => Answer::Edge(Step::Done(done)),
        })
    }

    /// A boundary with facts behind it was passed; the last one is where a terminal event says that it stopped.
    fn check(&self, check: Check) -> Answer {
        if let Some(at) = self.facts.next_at() {
            return Answer::Next(check.verdict(Verdict::Go, at));
        }
        match &self.facts.terminal {
            None => Answer::Edge(Step::Check(check)),
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

    /// Why a step has no answer in a run that has ended: it was stopped, or a bound refused it.
    fn gave_up(&self) -> Option<(Unanswered, Timestamp)> {
        match &self.facts.terminal {
            Some((Terminal::Failed(failure), at)) => {
                let is_stop =
                    failure.kind == FailureKind::Cancelled || failure.limit == Some(LimitKind::WallTime);
                let unanswered = match is_stop {
                    true => Unanswered::Aborted(self.stop()),
                    false => Unanswered::Refused(failure.clone()),
                };
                Some((unanswered, *at))
            }
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

/// What the journal says about the changed files at the end.
fn evidence(records: &[Recorded]) -> Result<Result<Vec<Artifact>, String>, EventError> {
    if let Some(last) = records.last() {
        let unknown = match last.event()? {
            Event::RunSucceeded(ended) => ended.artifacts_unknown,
            Event::RunFailed(ended) | Event::RunCancelled(ended) => ended.artifacts_unknown,
            _ => None,
        };
        if let Some(unknown) = unknown {
            return Ok(Err(unknown));
        }
    }
    Ok(Ok(crate::project::artifacts(records)?))
}
