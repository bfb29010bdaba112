//! The beginning of a drive: read what is known, fix the configuration or read it back, put the files in place.

use super::{
    Drive, Fresh, Interrupt, Launch, StopSwitch, diverged, signals::Signals, spend::InputBytes, workspace,
    workspace::FilesError,
};
use crate::{
    Configuration, DriveEnd,
    active::ActiveTime,
    facts::{Facts, FactsError},
    lease::Lease,
    ports::{Deps, Equipment},
    writer::Writer,
};
use portolan_core::{
    agent::AgentVersion,
    digest::Digest,
    event::{Event, Recorded, RunEnded, RunRecovered, RunResumed, RunStarted},
    failure::{FailureKind, RunFailure},
    faults::{self, Plant, Point, planted},
    ids::{Epoch, Seq, StepKind},
    manifest::Manifest,
    time::Timestamp,
};
use portolan_journal::{Command, InboxEntry, InboxId, Progress, RunRef, RunStatus};
use serde_json::value::to_raw_value;
use std::sync::Arc;

/// Re-drives without progress after which a run is quarantined.
pub(super) const MAX_REDRIVES: u32 = 5;

/// Events that are read at once.
const PAGE: u32 = 512;

/// What a beginning came to.
pub(super) enum Begun<'a> {
    /// The loop can run; the moment at which its configuration began.
    Drive(Box<Drive<'a>>, Timestamp),
    /// There is nothing to drive.
    Over(DriveEnd),
}

/// What is needed before there is a configuration.
struct Ground<'a> {
    deps: &'a Deps,
    run: RunRef,
    active: ActiveTime,
    lease: Lease,
    signals: Signals,
    writer: Writer,
    facts: Facts,
    agent: Arc<AgentVersion>,
}

pub(super) async fn begin<'a>(
    deps: &'a Deps,
    launch: Launch,
    stop: &StopSwitch,
    share_active: impl FnOnce(ActiveTime),
) -> Result<Begun<'a>, Interrupt> {
    let Launch {
        run,
        epoch,
        redrives,
        lease,
        fresh,
    } = launch;
    let signals = Signals::new(Arc::clone(&deps.journal), run, stop.clone());
    let ground = match fresh {
        Some(fresh) => {
            let active = ActiveTime::resume(Arc::clone(&deps.clock), 0);
            share_active(active.clone());
            fresh_ground(deps, (run, epoch), (active, lease), signals, fresh)
        }
        None => {
            let Some(row) = deps.journal.run(run).await.map_err(Interrupt::Read)? else {
                return Ok(Begun::Over(DriveEnd::Missing));
            };
            if row.progress.status.is_terminal() {
                return Ok(Begun::Over(DriveEnd::Ended));
            }
            let active = ActiveTime::resume(Arc::clone(&deps.clock), row.active_ms);
            share_active(active.clone());
            let mut known = row.progress.clone();
            if planted(Plant::CountsResetByCrash) {
                known.usage.model_calls = 0;
                known.usage.tool_calls = 0;
            }
            let position = (known, row.last_seq);
            let mut writer = writer(deps, (run, epoch), &active, position);
            if redrives > MAX_REDRIVES {
                let message = format!("the run was taken up {redrives} times without getting on");
                return quarantine(writer, message).await;
            }
            let records = read_all(deps, run).await?;
            faults::at(Point::JournalRead).await;
            let facts = match understood(&records, &row.progress) {
                Ok(facts) => facts,
                Err(message) => return quarantine(writer, message).await,
            };
            let agent = deps
                .agents
                .agent(
                    run.tenant,
                    facts.queued.agent_name.clone(),
                    Some(facts.queued.agent_version),
                )
                .await
                .map_err(|error| {
                    Interrupt::Read(portolan_journal::JournalError::NotCommitted(error.to_string()))
                })?;
            let Some(agent) = agent else {
                let message = format!("version {} of the agent is gone", facts.queued.agent_version);
                return quarantine(writer, message).await;
            };
            mark_taken_up(&mut writer, &facts, epoch)?;
            let mut signals = signals;
            signals.take_inbox(&deps.journal.inbox(run).await.map_err(Interrupt::Read)?);
            if facts.cancel_journaled {
                // Noticed by an earlier owner, which answered the command and did not get to the end.
                let command = Command::Cancel;
                signals.take_inbox(&[InboxEntry {
                    id: InboxId(0),
                    at: facts.last_at,
                    command,
                }]);
            }
            Ground {
                deps,
                run,
                active,
                lease,
                signals,
                writer,
                facts,
                agent: Arc::new(agent),
            }
        }
    };
    ground.set_up().await
}

fn writer(deps: &Deps, owned: (RunRef, Epoch), active: &ActiveTime, position: (Progress, Seq)) -> Writer {
    Writer::new(
        Arc::clone(&deps.journal),
        Arc::clone(&deps.clock),
        active.clone(),
        owned,
        position,
    )
}

fn fresh_ground<'a>(
    deps: &'a Deps,
    owned: (RunRef, Epoch),
    (active, lease): (ActiveTime, Lease),
    signals: Signals,
    fresh: Fresh,
) -> Ground<'a> {
    let writer = writer(deps, owned, &active, (Progress::default(), Seq(1)));
    let facts = Facts::fresh(fresh.queued, fresh.at);
    Ground {
        deps,
        run: owned.0,
        active,
        lease,
        signals,
        writer,
        facts,
        agent: fresh.agent,
    }
}

async fn read_all(deps: &Deps, run: RunRef) -> Result<Vec<Recorded>, Interrupt> {
    let mut records: Vec<Recorded> = Vec::new();
    loop {
        let after = records.last().map_or(Seq::ZERO, |record| record.seq);
        let page = deps
            .journal
            .read(run, after, PAGE)
            .await
            .map_err(Interrupt::Read)?;
        let is_last = page.len() < PAGE as usize;
        records.extend(page);
        if is_last {
            return Ok(records);
        }
    }
}

/// A journal that can be gone on from: readable, dense, and in agreement with the row that was folded from it.
fn understood(records: &[Recorded], row: &Progress) -> Result<Facts, String> {
    let facts = Facts::read(records).map_err(|error| chain(&error))?;
    if facts.progress != *row {
        return Err("the run row is not the fold of its journal".to_owned());
    }
    Ok(facts)
}

fn chain(error: &FactsError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

async fn quarantine<'a>(mut writer: Writer, message: String) -> Result<Begun<'a>, Interrupt> {
    let error = RunFailure::new(FailureKind::Quarantined, message);
    writer.push(
        &Event::RunFailed(RunEnded {
            error,
            artifacts_unknown: None,
        }),
        None,
    )?;
    writer.flush(None, None).await?;
    Ok(Begun::Over(DriveEnd::Ended))
}

/// Writes down that another owner goes on, or that the wait is over.
fn mark_taken_up(writer: &mut Writer, facts: &Facts, epoch: Epoch) -> Result<(), Interrupt> {
    match facts.progress.status {
        RunStatus::Waiting => writer.push(&Event::RunResumed(RunResumed {}), None)?,
        RunStatus::Running => {
            let recoveries = facts.progress.recoveries.saturating_add(1);
            writer.push(&Event::RunRecovered(RunRecovered { epoch, recoveries }), None)?;
        }
        RunStatus::Queued | RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled => {}
    }
    Ok(())
}

impl<'a> Ground<'a> {
    async fn set_up(self) -> Result<Begun<'a>, Interrupt> {
        match self.facts.started.clone() {
            None => self.configure().await,
            Some(started) => self.read_back(&started).await,
        }
    }

    /// The configuration phase of a fresh run. A failure ends the run before any model is asked.
    async fn configure(mut self) -> Result<Begun<'a>, Interrupt> {
        let began_at = self.deps.clock.now();
        let (configuration, equipment, baseline) = match self.fix_configuration().await {
            Ok(fixed) => fixed,
            Err(Interrupt::Fail(error)) => {
                self.writer.push(
                    &Event::RunFailed(RunEnded {
                        error,
                        artifacts_unknown: None,
                    }),
                    None,
                )?;
                self.writer.flush(None, None).await?;
                return Ok(Begun::Over(DriveEnd::Ended));
            }
            Err(interrupt) => return Err(interrupt),
        };
        let configured = to_raw_value(&configuration)
            .map_err(|error| diverged(format!("the configuration cannot be kept: {error}")))?;
        let (manifest, digest) = baseline.unzip();
        let model = configuration.model.clone();
        let started = RunStarted {
            configured,
            model,
            baseline: digest,
            began_at,
        };
        self.writer.push(&Event::RunStarted(Box::new(started)), None)?;
        let manifest = manifest.unwrap_or_default();
        Ok(Begun::Drive(
            self.ready(configuration, equipment, (manifest.clone(), manifest)),
            began_at,
        ))
    }

    async fn fix_configuration(
        &self,
    ) -> Result<(Configuration, Equipment, Option<(Manifest, Digest)>), Interrupt> {
        let (preparer, queued) = (&self.deps.preparer, &*self.facts.queued);
        let equipment = preparer
            .equip(self.run, &self.agent, queued)
            .map_err(Interrupt::Fail)?;
        let configuration = preparer
            .configure(self.run, &self.agent, queued, &equipment.tools)
            .map_err(Interrupt::Fail)?;
        crate::prepare::codec(&configuration.configured.result_schema).map_err(Interrupt::Fail)?;
        self.deps.models.model(&configuration.model).map_err(|error| {
            Interrupt::Fail(RunFailure::new(FailureKind::Configuration, error.to_string()))
        })?;
        let baseline = match &equipment.workspace {
            None => None,
            Some(workspace) => {
                let seed = preparer.seed(&self.agent, queued).map_err(Interrupt::Fail)?;
                let planted = workspace::plant(workspace, seed, self.deps).await;
                Some(planted.map_err(|error| match error {
                    FilesError::Store(error) => workspace::lost_blob(error),
                    FilesError::Workspace(error) => {
                        let message = format!("the workspace cannot be made ready: {error}");
                        Interrupt::Fail(RunFailure::new(FailureKind::Configuration, message))
                    }
                })?)
            }
        };
        Ok((configuration, equipment, baseline))
    }

    /// A run that has begun: its configuration is read back, its files are those of its last committed step.
    async fn read_back(self, started: &RunStarted) -> Result<Begun<'a>, Interrupt> {
        let configuration: Configuration = match serde_json::from_str(started.configured.get()) {
            Ok(configuration) => configuration,
            Err(error) => {
                return quarantine(self.writer, format!("the configuration cannot be read: {error}")).await;
            }
        };
        let equipment = match self
            .deps
            .preparer
            .equip(self.run, &self.agent, &self.facts.queued)
        {
            Ok(equipment) => equipment,
            Err(failure) => return quarantine(self.writer, failure.message).await,
        };
        let mut baseline = Manifest::default();
        let mut files = Manifest::default();
        if let Some(digest) = started.baseline {
            let kept = self.deps.blobs.get(digest).await.map_err(workspace::lost_blob)?;
            baseline = match serde_json::from_slice(&kept) {
                Ok(manifest) => manifest,
                Err(error) => {
                    return quarantine(self.writer, format!("the first manifest cannot be read: {error}"))
                        .await;
                }
            };
            files = baseline.clone();
            for change in &self.facts.file_changes {
                files.apply(change);
            }
        }
        let tool_in_doubt = self
            .facts
            .in_doubt()
            .is_some_and(|(step, _)| step.kind == StepKind::Tool);
        let has_workspace = equipment.workspace.is_some();
        let mut drive = self.ready(configuration, equipment, (baseline, files));
        drive.restore_owed = has_workspace;
        if !tool_in_doubt && let Err(interrupt) = drive.restore_owed_files().await {
            return match interrupt {
                Interrupt::Fail(failure) => quarantine(drive.writer, failure.message).await,
                other => Err(other),
            };
        }
        Ok(Begun::Drive(drive, started.began_at))
    }

    fn ready(
        self,
        configuration: Configuration,
        equipment: Equipment,
        (baseline, files): (Manifest, Manifest),
    ) -> Box<Drive<'a>> {
        let Self {
            deps,
            run,
            active,
            lease,
            signals,
            writer,
            facts,
            agent: _,
        } = self;
        let model = match deps.models.model(&configuration.model) {
            Ok(model) => model,
            // A run that has begun keeps its model's name. Asked, a name that resolves to nothing is a provider failure.
            Err(error) => Arc::new(super::model::Unresolved(error)),
        };
        let price = deps.prices.price(&configuration.model);
        let rejections_known = facts.rejections;
        Box::new(Drive {
            deps,
            run,
            configuration,
            equipment,
            model,
            price,
            writer,
            facts,
            active,
            lease,
            signals,
            input: InputBytes::default(),
            baseline,
            files,
            restore_owed: false,
            trace_seen: 0,
            rejections_known,
        })
    }
}
