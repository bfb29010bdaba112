//! Replay: folds a journal through the machine that wrote it, without a model, a tool or a file, and says where it differs.
//!
//! The journal answers the machine as it does in a recovery; beside it the replay watches that what the machine asks is what
//! was recorded, in the order in which it was recorded: steps with their requests, refused results, the end.

pub(crate) mod fold;
mod watch;

use crate::{
    Configuration,
    facts::{Facts, FactsError},
};
use fold::{Answer, Fold};
use portolan_agent::machine::{Done, Step};
use portolan_core::{
    digest::Digest,
    event::{Event, Recorded, RunStarted},
    failure::{FailureKind, RunFailure},
    ids::{Attempt, Seq, StepId},
    limits::LimitKind,
};
use serde_json::Value;
use watch::Watch;

/// What a replay came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// Events that were read.
    pub events: u64,
    /// Steps that the machine came to.
    pub steps: u64,
    /// Whether the journal has an end.
    pub ended: bool,
    /// The first place where journal and machine differ, if there is one.
    pub difference: Option<Difference>,
}

/// A place where journal and machine differ.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("event {}: {kind}", .seq.0)]
pub struct Difference {
    /// The event.
    pub seq: Seq,
    /// How.
    pub kind: DifferenceKind,
}

/// How they differ.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DifferenceKind {
    /// A place is missing or doubled.
    #[error("it stands where {} belongs", .expected.0)]
    NotDense {
        /// What belongs there.
        expected: Seq,
    },
    /// It cannot be read, or cannot follow what is before it.
    #[error("{0}")]
    Unreadable(String),
    /// Another step.
    #[error("the journal has {recorded}, the machine {}", stands(*.machine))]
    Step {
        /// Of the journal.
        recorded: StepId,
        /// Of the machine.
        machine: Option<StepId>,
    },
    /// Another request.
    #[error("the request of {step} was {recorded}, and is {computed} now")]
    Request {
        /// Of which step.
        step: StepId,
        /// The recorded hash.
        recorded: Digest,
        /// The recomputed one.
        computed: Digest,
    },
    /// Another model or tool.
    #[error("{step} asked {recorded}, and asks {computed} now")]
    Name {
        /// Which step.
        step: StepId,
        /// The recorded name.
        recorded: String,
        /// The recomputed one.
        computed: String,
    },
    /// Another number of the attempt.
    #[error("attempt {} of {step} stands where {} belongs", .recorded.0, .expected.0)]
    Attempt {
        /// Of which step.
        step: StepId,
        /// The recorded number.
        recorded: Attempt,
        /// The right one.
        expected: Attempt,
    },
    /// An answer to nothing, or a second intent.
    #[error("{0}")]
    Order(String),
    /// A refused result that is recorded and was none, or the other way round.
    #[error("the journal has {}, the machine {}", said(.recorded.as_deref()), said(.computed.as_deref()))]
    Rejection {
        /// The recorded message.
        recorded: Option<String>,
        /// The recomputed one.
        computed: Option<String>,
    },
    /// Another end.
    #[error("the run ended with {recorded}, and {computed} now")]
    Terminal {
        /// The recorded end.
        recorded: String,
        /// What the machine says.
        computed: String,
    },
}

fn stands(machine: Option<StepId>) -> String {
    match machine {
        None => "has ended".to_owned(),
        Some(step) => format!("comes to {step}"),
    }
}

fn said(rejection: Option<&str>) -> String {
    match rejection {
        None => "refuses no result".to_owned(),
        Some(message) => format!("refuses a result: {message}"),
    }
}

impl DifferenceKind {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotDense { .. } => "not_dense",
            Self::Unreadable(_) => "unreadable",
            Self::Step { .. } => "step",
            Self::Request { .. } => "request",
            Self::Name { .. } => "name",
            Self::Attempt { .. } => "attempt",
            Self::Order(_) => "order",
            Self::Rejection { .. } => "rejection",
            Self::Terminal { .. } => "terminal",
        }
    }

    const fn at(self, seq: Seq) -> Difference {
        Difference { seq, kind: self }
    }
}

/// Replays a journal. A run that has not ended is replayed as far as it is.
pub fn replay(records: &[Recorded]) -> Replayed {
    let mut replayed = Replayed {
        events: records.len() as u64,
        steps: 0,
        ended: false,
        difference: None,
    };
    replayed.difference = fold_all(records, &mut replayed).err();
    replayed
}

fn fold_all(records: &[Recorded], replayed: &mut Replayed) -> Result<(), Difference> {
    let facts = Facts::read(records).map_err(|error| of_facts(&error))?;
    replayed.ended = facts.terminal.is_some();
    let last = facts.last_seq;
    let Some(started) = facts.started.clone() else {
        return unconfigured(records);
    };
    let started_seq = records
        .iter()
        .find(|record| record.kind == "run_started")
        .map_or(Seq(2), |record| record.seq);
    let unreadable = |why: String| DifferenceKind::Unreadable(why).at(started_seq);
    let configuration = configuration(&started).map_err(unreadable)?;
    let mut watch = Watch::new(records, configuration.model.clone(), last)?;
    let begun = Fold::begin(facts, records, configuration, started.began_at);
    let (mut fold, mut step) = begun.map_err(unreadable)?;
    loop {
        watch.see(&step)?;
        let answered = fold.answer(step);
        step = match answered.map_err(|why| DifferenceKind::Unreadable(why).at(watch.answered_at()))? {
            Answer::Next(step) => step,
            Answer::Edge(step) => {
                replayed.steps = watch.steps();
                return edge(&step, &watch, records.last());
            }
        };
    }
}

fn configuration(started: &RunStarted) -> Result<Configuration, String> {
    let read: Result<Configuration, _> = serde_json::from_str(started.configured.get());
    let configuration = read.map_err(|error| format!("the configuration cannot be read: {error}"))?;
    if configuration.model == started.model {
        Ok(configuration)
    } else {
        Err(format!(
            "the configuration names the model {}, the event {}",
            configuration.model, started.model
        ))
    }
}

fn of_facts(error: &FactsError) -> Difference {
    let why = |error: &dyn std::error::Error| {
        let source = error.source().map(|source| format!(": {source}"));
        format!("{error}{}", source.unwrap_or_default())
    };
    match error {
        FactsError::NotDense { expected, found } => {
            DifferenceKind::NotDense { expected: *expected }.at(*found)
        }
        FactsError::Event { seq, source } => DifferenceKind::Unreadable(why(source)).at(*seq),
        FactsError::Fold { seq, source } => DifferenceKind::Unreadable(why(source)).at(*seq),
        FactsError::Beginning => DifferenceKind::Unreadable(error.to_string()).at(Seq(1)),
    }
}

/// A run without a configuration has no steps; it waits, or it ended before any model was asked.
fn unconfigured(records: &[Recorded]) -> Result<(), Difference> {
    for record in records {
        if let Some(step) = record.step {
            let recorded = DifferenceKind::Step {
                recorded: step,
                machine: None,
            };
            return Err(recorded.at(record.seq));
        }
        if record.kind == "run_succeeded" {
            let end = DifferenceKind::Terminal {
                recorded: "a value".to_owned(),
                computed: "was never configured".to_owned(),
            };
            return Err(end.at(record.seq));
        }
    }
    Ok(())
}

/// Where the journal says no more.
fn edge(step: &Step, watch: &Watch, last: Option<&Recorded>) -> Result<(), Difference> {
    watch.nothing_is_left(step)?;
    let Some((record, Ok(terminal))) = last.map(|record| (record, record.event())) else {
        return Ok(());
    };
    if !terminal.is_terminal() {
        return Ok(());
    }
    let differs = |recorded: String, computed: String| {
        Err(DifferenceKind::Terminal { recorded, computed }.at(record.seq))
    };
    let Step::Done(done) = step else {
        return differs(shown(&terminal), "the machine goes on".to_owned());
    };
    if is_same_end(&terminal, done) {
        Ok(())
    } else {
        differs(shown(&terminal), computed(done))
    }
}

fn is_same_end(terminal: &Event, done: &Done) -> bool {
    match (terminal, done.outcome()) {
        (Event::RunSucceeded(ended), Ok(value)) => {
            serde_json::from_str::<Value>(ended.output.get()).is_ok_and(|recorded| recorded == *value)
        }
        (Event::RunFailed(ended), Err(failure)) => {
            failure.kind != FailureKind::Cancelled && is_same_failure(&ended.error, failure)
        }
        (Event::RunCancelled(ended), Err(failure)) => {
            failure.kind == FailureKind::Cancelled && is_same_failure(&ended.error, failure)
        }
        _ => false,
    }
}

fn is_same_failure(recorded: &RunFailure, computed: &RunFailure) -> bool {
    match recorded.kind {
        // Ended by the engine, wherever the machine stood.
        FailureKind::Quarantined | FailureKind::ReplayDiverged => computed.kind == recorded.kind,
        _ => recorded == computed,
    }
}

/// Whether an end may come from outside of the machine, in the place of an answer.
fn comes_from_outside(failure: &RunFailure) -> bool {
    match failure.kind {
        FailureKind::Cancelled
        | FailureKind::BudgetExhausted
        | FailureKind::Quarantined
        | FailureKind::ReplayDiverged
        | FailureKind::Internal => true,
        FailureKind::LimitExhausted => matches!(
            failure.limit,
            Some(LimitKind::WallTime | LimitKind::MaxCostUsd | LimitKind::MaxTokens)
        ),
        FailureKind::Configuration
        | FailureKind::Provider
        | FailureKind::ResultContract
        | FailureKind::ToolUnavailable => false,
    }
}

fn shown(terminal: &Event) -> String {
    match terminal {
        Event::RunSucceeded(ended) => format!("the value {}", ended.output.get()),
        Event::RunFailed(ended) | Event::RunCancelled(ended) => failure_shown(&ended.error),
        other => other.kind().to_owned(),
    }
}

fn computed(done: &Done) -> String {
    match done.outcome() {
        Ok(value) => format!("ends with the value {value}"),
        Err(failure) => format!("ends with {}", failure_shown(failure)),
    }
}

fn failure_shown(failure: &RunFailure) -> String {
    serde_json::to_string(failure).unwrap_or_else(|_| failure.message.clone())
}
