//! The usage row of a run, written by the transaction that ends it.

use super::super::{code, fault::Fault};
use portolan_core::time::Timestamp;
use portolan_journal::{Progress, RunRef};
use rusqlite::{Connection, params};

/// What usage says about a run beside its counters.
pub(super) struct Ended<'a> {
    pub(super) run: RunRef,
    pub(super) agent: &'a str,
    pub(super) agent_version: i64,
    pub(super) admitted_at: Timestamp,
    pub(super) progress: &'a Progress,
}

/// Writes it. There is one at most: a run ends once.
pub(super) fn insert(connection: &Connection, ended: &Ended<'_>) -> Result<(), Fault> {
    let progress = ended.progress;
    let tokens = &progress.tokens;
    let cost = (!progress.cost_unknown).then(|| code::from_money(progress.cost));
    connection
        .prepare_cached(
            "INSERT INTO usage (tenant_id, run_id, day, agent, agent_version, model, status, model_calls, tool_calls,
                 tokens_in, tokens_out, tokens_cached, tokens_reasoning, cost, cost_is_estimate)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(params![
            ended.run.tenant.as_bytes(),
            ended.run.run.as_bytes(),
            ended.admitted_at.day(),
            ended.agent,
            ended.agent_version,
            progress.model,
            code::from_status(progress.status),
            progress.usage.model_calls,
            progress.usage.tool_calls,
            code::from_count(tokens.tokens_in),
            code::from_count(tokens.tokens_out),
            code::from_count(tokens.tokens_cached),
            code::from_count(tokens.tokens_reasoning),
            cost,
            progress.cost_is_estimate
        ])?;
    Ok(())
}
