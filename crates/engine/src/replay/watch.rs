//! Watches that the machine asks what was recorded, in that order.

use super::{Difference, DifferenceKind, comes_from_outside};
use portolan_agent::machine::Step;
use portolan_core::{
    digest::Digest,
    event::{Event, Recorded},
    failure::RunFailure,
    ids::{Attempt, Seq, StepId},
    trace::TraceKind,
};
use std::collections::VecDeque;

/// What the machine has to come to.
enum Entry {
    Started {
        step: StepId,
        attempt: Attempt,
        digest: Digest,
        name: String,
    },
    Ended {
        step: StepId,
        attempt: Attempt,
        is_retryable: bool,
    },
    Rejected {
        call_id: String,
        error: String,
    },
    End(Option<RunFailure>),
}

/// The record, as far as the machine has not come.
pub(super) struct Watch {
    entries: VecDeque<(Seq, Entry)>,
    model: String,
    /// How much of the machine's trace was looked at.
    trace_seen: usize,
    steps: u64,
    answered_at: Seq,
    last: Seq,
}

impl Watch {
    pub(super) fn new(records: &[Recorded], model: String, last: Seq) -> Result<Self, Difference> {
        let mut entries = VecDeque::new();
        for record in records {
            if let Some(entry) = entry(record)? {
                entries.push_back((record.seq, entry));
            }
        }
        Ok(Self {
            entries,
            model,
            trace_seen: 0,
            steps: 0,
            answered_at: last,
            last,
        })
    }

    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Where the last answer stands.
    pub(super) const fn answered_at(&self) -> Seq {
        self.answered_at
    }

    /// Compares what the machine wants now with what comes next in the record.
    pub(super) fn see(&mut self, step: &Step) -> Result<(), Difference> {
        self.rejections(step)?;
        match step {
            Step::Model(need) => {
                let name = self.model.clone();
                self.step(need.step(), need.digest(), &name)
            }
            Step::Tool(need) => self.step(need.step(), need.digest(), &need.call().name),
            Step::Check(_) | Step::Evidence(_) | Step::Done(_) => Ok(()),
        }
    }

    /// The record holds the end, or nothing more.
    pub(super) fn nothing_is_left(&self, step: &Step) -> Result<(), Difference> {
        let machine = match step {
            Step::Model(need) => Some(need.step()),
            Step::Tool(need) => Some(need.step()),
            Step::Check(_) | Step::Evidence(_) | Step::Done(_) => None,
        };
        match self.entries.front() {
            None | Some((_, Entry::End(_))) => Ok(()),
            // The journal of an open run ends between a refusal and the boundary before it, which nobody has passed again.
            Some((_, Entry::Rejected { .. })) if matches!(step, Step::Check(_)) => Ok(()),
            Some((seq, Entry::Started { step, .. } | Entry::Ended { step, .. })) => {
                let recorded = *step;
                Err(DifferenceKind::Step { recorded, machine }.at(*seq))
            }
            Some((seq, Entry::Rejected { error, .. })) => Err(rejection(Some(error), None).at(*seq)),
        }
    }

    /// Refused results stand behind the answer that carried them and before whatever follows.
    fn rejections(&mut self, step: &Step) -> Result<(), Difference> {
        let trace = step.trace();
        for event in trace.get(self.trace_seen..).unwrap_or_default() {
            let TraceKind::ResultRejected { call_id, error } = &event.kind else {
                continue;
            };
            match self.entries.pop_front() {
                // The owner died between the two.
                None => {}
                Some((
                    _,
                    Entry::Rejected {
                        call_id: id,
                        error: text,
                    },
                )) if (&id, &text) == (call_id, error) => {}
                Some((seq, Entry::Rejected { error: text, .. })) => {
                    return Err(rejection(Some(&text), Some(error)).at(seq));
                }
                Some((seq, _)) => return Err(rejection(None, Some(error)).at(seq)),
            }
        }
        self.trace_seen = trace.len();
        Ok(())
    }

    /// One step, with all its attempts, up to its answer.
    fn step(&mut self, wanted: StepId, computed: Digest, name: &str) -> Result<(), Difference> {
        self.steps += 1;
        let mut expected = Attempt::FIRST;
        let mut open = None;
        while let Some((seq, entry)) = self.entries.front() {
            let seq = *seq;
            let differs = |kind: DifferenceKind| Err(kind.at(seq));
            match entry {
                Entry::Started { step, .. } | Entry::Ended { step, .. } if *step != wanted => {
                    return differs(DifferenceKind::Step {
                        recorded: *step,
                        machine: Some(wanted),
                    });
                }
                Entry::Started { attempt, .. } | Entry::Ended { attempt, .. } if *attempt != expected => {
                    return differs(DifferenceKind::Attempt {
                        step: wanted,
                        recorded: *attempt,
                        expected,
                    });
                }
                Entry::Started { digest, .. } if *digest != computed => {
                    return differs(DifferenceKind::Request {
                        step: wanted,
                        recorded: *digest,
                        computed,
                    });
                }
                Entry::Started { name: recorded, .. } if recorded != name => {
                    return differs(DifferenceKind::Name {
                        step: wanted,
                        recorded: recorded.clone(),
                        computed: name.to_owned(),
                    });
                }
                Entry::Started { .. } if open.is_some() => {
                    return differs(DifferenceKind::Order(format!("{wanted} is intended twice")));
                }
                Entry::Started { attempt, .. } => open = Some(*attempt),
                Entry::Ended { .. } if open.is_none() => {
                    let what = format!("{wanted} is answered before it is intended");
                    return differs(DifferenceKind::Order(what));
                }
                Entry::Ended { is_retryable, .. } => {
                    open = None;
                    expected = expected.next();
                    if !is_retryable {
                        self.answered_at = seq;
                        self.entries.pop_front();
                        return Ok(());
                    }
                }
                Entry::Rejected { error, .. } => return Err(rejection(Some(error), None).at(seq)),
                Entry::End(Some(failure)) if comes_from_outside(failure) => return Ok(()),
                Entry::End(failure) => {
                    let recorded = failure
                        .as_ref()
                        .map_or_else(|| "a value".to_owned(), |failure| failure.message.clone());
                    let computed = format!("the machine comes to {wanted}");
                    return differs(DifferenceKind::Terminal { recorded, computed });
                }
            }
            self.entries.pop_front();
        }
        self.answered_at = self.last;
        Ok(())
    }
}

fn rejection(recorded: Option<&str>, computed: Option<&str>) -> DifferenceKind {
    DifferenceKind::Rejection {
        recorded: recorded.map(str::to_owned),
        computed: computed.map(str::to_owned),
    }
}

fn entry(record: &Recorded) -> Result<Option<Entry>, Difference> {
    let unreadable = |what: String| DifferenceKind::Unreadable(what).at(record.seq);
    let event = record.event().map_err(|error| unreadable(error.to_string()))?;
    let step = || {
        let missing = || unreadable(format!("{} names no step", record.kind));
        record.step.zip(record.attempt).ok_or_else(missing)
    };
    Ok(match event {
        Event::StepStarted(started) => {
            let (step, attempt) = step()?;
            Some(Entry::Started {
                step,
                attempt,
                digest: started.request_hash,
                name: started.name,
            })
        }
        Event::StepCompleted(_) => {
            let (step, attempt) = step()?;
            Some(Entry::Ended {
                step,
                attempt,
                is_retryable: false,
            })
        }
        Event::StepFailed(failed) => {
            let (step, attempt) = step()?;
            Some(Entry::Ended {
                step,
                attempt,
                is_retryable: failed.retryable,
            })
        }
        Event::ResultRejected(rejected) => Some(Entry::Rejected {
            call_id: rejected.call_id,
            error: rejected.error,
        }),
        Event::RunSucceeded(_) => Some(Entry::End(None)),
        Event::RunFailed(ended) | Event::RunCancelled(ended) => Some(Entry::End(Some(ended.error))),
        Event::RunQueued(_)
        | Event::RunStarted(_)
        | Event::RunRecovered(_)
        | Event::RunWaiting(_)
        | Event::RunResumed(_)
        | Event::RunCancelRequested(_)
        | Event::StepAmbiguous(_)
        | Event::ArtifactCreated(_)
        | Event::ArtifactModified(_)
        | Event::ArtifactDeleted(_)
        | Event::Unknown { .. } => None,
    })
}
