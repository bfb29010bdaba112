//! A run as the API shows it.

use super::not_found;
use crate::{api::Api, problem::Problem};
use portolan_core::{
    agent::RunLimits,
    event::{Event, Recorded, RunWaiting, WaitReason, is_terminal_kind},
    ids::{RunId, Seq},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{Glance, RunRef, RunRow, RunStatus};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};
use utoipa::ToSchema;

/// How far back the reason of a waiting run is looked for.
const REASON_WITHIN: u64 = 16;

/// A run with the two events that tell what the row does not.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) row: RunRow,
    queued: Vec<u8>,
    /// The terminal event, or the one that says why the run waits.
    telling: Option<Recorded>,
}

impl Loaded {
    /// A run that was admitted a moment ago.
    pub(crate) fn fresh(row: RunRow, queued: Vec<u8>) -> Self {
        Self {
            row,
            queued,
            telling: None,
        }
    }

    /// Reads a run of the tenant.
    pub(crate) async fn read(api: &Api, run: RunRef) -> Result<Self, Problem> {
        let row = api.journal.run(run).await?.ok_or_else(not_found)?;
        Self::complete(api, row).await
    }

    /// Takes a run as it was seen.
    pub(crate) async fn glanced(api: &Api, glance: Glance) -> Result<Self, Problem> {
        let Glance { row, first, last } = glance;
        let telling = if row.progress.status == RunStatus::Waiting {
            telling_event(api, &row).await?
        } else {
            Some(last)
        };
        Ok(Self {
            row,
            queued: first.payload,
            telling,
        })
    }

    /// Reads what the row does not tell.
    pub(crate) async fn complete(api: &Api, row: RunRow) -> Result<Self, Problem> {
        let (queued, telling) =
            futures::try_join!(api.journal.read(row.at, Seq::ZERO, 1), telling_event(api, &row))?;
        let queued = queued
            .into_iter()
            .next()
            .ok_or_else(|| Problem::internal(&"a run without a first event"))?;
        Ok(Self {
            row,
            queued: queued.payload,
            telling,
        })
    }

    /// Writes the run: `{"run": …}`.
    pub(crate) fn envelope(&self, now: Timestamp) -> Result<Vec<u8>, Problem> {
        #[derive(Serialize)]
        struct Envelope<'a> {
            run: RunView<'a>,
        }
        let run = self.view(now)?;
        serde_json::to_vec(&Envelope { run }).map_err(|error| Problem::internal(&error))
    }

    /// The run as it is shown.
    pub(crate) fn view(&self, now: Timestamp) -> Result<RunView<'_>, Problem> {
        let asked: Asked<'_> =
            serde_json::from_slice(&self.queued).map_err(|error| Problem::internal(&error))?;
        let ended = match &self.telling {
            Some(event) if is_terminal_kind(&event.kind) => {
                serde_json::from_slice::<Ended<'_>>(&event.payload)
                    .map_err(|error| Problem::internal(&error))?
            }
            Some(_) | None => Ended::default(),
        };
        let (row, progress) = (&self.row, &self.row.progress);
        Ok(RunView {
            id: row.at.run,
            agent_name: row.agent.as_str(),
            agent_version: row.agent_version,
            status: row.shown_status(),
            input: asked.input,
            output: ended.output,
            error: ended.error,
            limits: asked.limits,
            usage: UsageView {
                model_calls: progress.usage.model_calls,
                tool_calls: progress.usage.tool_calls,
                result_rejections: progress.usage.result_rejections,
                tokens_in: progress.tokens.tokens_in,
                tokens_out: progress.tokens.tokens_out,
                tokens_cached: progress.tokens.tokens_cached,
                tokens_reasoning: progress.tokens.tokens_reasoning,
            },
            cost_usd: (!progress.cost_unknown).then_some(progress.cost),
            cost_is_estimate: progress.cost_is_estimate,
            model: progress.model.as_deref(),
            placement: "inline",
            recoveries: progress.recoveries,
            wall_time_used_ms: row.active_ms,
            parent_run_id: asked.parent_run_id,
            forked_from_seq: None,
            tags: &row.tags,
            metadata: asked.metadata,
            created_at: row.created_at,
            started_at: progress.started_at,
            finished_at: progress.finished_at,
            waiting_on: self.waiting_on(now),
        })
    }

    /// Why the run is not moving, if it is not.
    fn waiting_on(&self, now: Timestamp) -> Option<WaitingOn> {
        let row = &self.row;
        let host = |since| WaitingOn {
            why: Why::Host,
            since,
            until: None,
            moved_by: "a host with a free place, or the next sweep of any host",
        };
        match row.progress.status {
            RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled => None,
            RunStatus::Waiting => Some(self.declared_wait()),
            RunStatus::Queued if row.owner.is_none() => Some(host(row.created_at)),
            RunStatus::Running if row.owner.is_none() => {
                Some(host(row.progress.started_at.unwrap_or(row.created_at)))
            }
            RunStatus::Queued | RunStatus::Running => {
                let lost_at = row.lease_until.filter(|until| *until < now)?;
                Some(WaitingOn {
                    why: Why::LostHost,
                    since: lost_at,
                    until: None,
                    moved_by: "the sweep of another host, which takes over runs whose host went silent",
                })
            }
        }
    }

    fn declared_wait(&self) -> WaitingOn {
        let row = &self.row;
        let declared = self.telling.as_ref().and_then(|event| {
            let waiting: RunWaiting = serde_json::from_slice(&event.payload).ok()?;
            Some((event.at, waiting))
        });
        let (since, until) = match &declared {
            Some((at, waiting)) => (*at, waiting.until.or(row.wake_at)),
            None => (row.created_at, row.wake_at),
        };
        let (why, moved_by) = match declared.map_or(WaitReason::Timer, |(_, waiting)| waiting.reason) {
            WaitReason::Timer => (Why::Timer, "the timer"),
            WaitReason::Budget => (Why::Budget, "a higher limit or a new window of the budget"),
            WaitReason::Approval => (Why::Approval, "the decision of a person, or its timeout"),
        };
        WaitingOn {
            why,
            since,
            until,
            moved_by,
        }
    }
}

/// The event that tells how a run ended or why it waits.
async fn telling_event(api: &Api, row: &RunRow) -> Result<Option<Recorded>, portolan_journal::JournalError> {
    let last = row.last_seq.0;
    let back = match row.progress.status {
        RunStatus::Queued | RunStatus::Running => return Ok(None),
        RunStatus::Waiting => REASON_WITHIN,
        RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled => 1,
    };
    let max = u32::try_from(back).unwrap_or(u32::MAX);
    let events = api
        .journal
        .read(row.at, Seq(last.saturating_sub(back)), max)
        .await?;
    let tells =
        |event: &Recorded| is_terminal_kind(&event.kind) || matches!(event.event(), Ok(Event::RunWaiting(_)));
    Ok(events.into_iter().rev().find(tells))
}

/// What the first event tells, without decoding the input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
    #[serde(default)]
    limits: RunLimits,
    #[serde(borrow, default)]
    metadata: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(default)]
    parent_run_id: Option<RunId>,
}

/// What the terminal event tells.
#[derive(Default, Deserialize)]
struct Ended<'a> {
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Run)]
pub(crate) struct RunView<'a> {
    /// Its id.
    #[schema(value_type = String, example = "run_01981f8a6c3b7f5e8d2a4c6b8e0f1a2b")]
    id: RunId,
    /// The agent that it runs.
    agent_name: &'a str,
    /// The version of the agent that it is pinned to.
    agent_version: u32,
    /// `queued`, `running`, `waiting`, `cancelling`, `succeeded`, `failed` or `cancelled`.
    status: &'a str,
    /// What it was given.
    #[schema(value_type = serde_json::Value)]
    input: &'a RawValue,
    /// The result of a run that succeeded.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<&'a RawValue>,
    /// Why it did not succeed.
    #[schema(value_type = Option<crate::schema::RunError>)]
    error: Option<&'a RawValue>,
    /// Its bounds.
    #[schema(value_type = crate::schema::RunLimits)]
    limits: RunLimits,
    /// What it used.
    usage: UsageView,
    /// What it cost; null if the price of a call is not known.
    #[schema(value_type = Option<String>, example = "0.001234")]
    cost_usd: Option<NanoUsd>,
    /// Whether a part of the cost is an estimate.
    cost_is_estimate: bool,
    /// The model that it asks, once it has started.
    model: Option<&'a str>,
    /// Where it executes.
    placement: &'static str,
    /// How often another owner went on from its journal.
    recoveries: u32,
    /// The active time that it used.
    wall_time_used_ms: u64,
    /// The run that it was forked from.
    #[schema(value_type = Option<String>)]
    parent_run_id: Option<RunId>,
    /// The last event that it took over from there.
    #[schema(value_type = Option<u64>)]
    forked_from_seq: Option<Seq>,
    /// Tags, for lists.
    tags: &'a [String],
    /// Whatever its creator noted.
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    /// When it was admitted.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it began.
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
    /// Why it is not moving, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_on: Option<WaitingOn>,
}

/// What a run used.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunUsage)]
pub(crate) struct UsageView {
    /// Provider answers that the loop could use.
    model_calls: u32,
    /// Tool invocations.
    tool_calls: u32,
    /// Submitted results that were refused.
    result_rejections: u32,
    /// Input tokens that were not read from a cache.
    tokens_in: u64,
    /// Output tokens that are not reasoning.
    tokens_out: u64,
    /// Input tokens read from a cache.
    tokens_cached: u64,
    /// Output tokens spent on reasoning.
    tokens_reasoning: u64,
}

/// Why a run is not moving.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingOn {
    /// What it waits for.
    why: Why,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When it goes on at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// What would move it.
    moved_by: &'static str,
}

/// What a run waits for.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Why {
    /// A host that takes it.
    Host,
    /// Another host, as its own went silent.
    LostHost,
    /// A timer.
    Timer,
    /// Money.
    Budget,
    /// A person.
    Approval,
}
