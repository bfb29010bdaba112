//! A run that ended elsewhere: row, events and usage, or nothing.

use super::{
    super::{
        fault::Fault,
        hint::News,
        lane::{Commit, Write},
        read,
    },
    events, execute, usage,
};
use crate::{
    code,
    import::{PreparedImport, event},
};
use deadpool_postgres::ClientWrapper;
use portolan_core::Fut;
use portolan_journal::Imported;

/// Events of one statement.
const PORTION: usize = 256;

/// A run to be written as it is.
pub(in super::super) struct ImportRun(pub(in super::super) PreparedImport);

impl Write for ImportRun {
    type Answer = Imported;
    const COMMIT: Commit = Commit::Transaction;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<Imported, Fault>> {
        Box::pin(async move {
            if !self.run(client).await? {
                return Ok(Imported::Exists);
            }
            self.events(client).await?;
            self.usage(client).await?;
            Ok(Imported::Done)
        })
    }

    fn announce(&self, answer: &Imported, news: &News) {
        let row = self.0.row();
        match answer {
            Imported::Done => news.committed(row.at, row.last_seq, true),
            Imported::Exists => {}
        }
    }
}

impl ImportRun {
    async fn run(&self, client: &ClientWrapper) -> Result<bool, Fault> {
        let row = self.0.row();
        let (tenant, run) = read::key(&row.at);
        let sql = "INSERT INTO runs (tenant_id, run_id, agent, agent_version, tags, created_at, status, epoch, next_seq, active_ms,
                settled, progress)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (tenant_id, run_id) DO NOTHING";
        let inserted: u64 = execute(
            client,
            sql,
            &[
                &tenant,
                &run,
                &row.agent.as_str(),
                &i64::from(row.agent_version),
                &self.0.tags,
                &row.created_at.0,
                &code::from_status(row.progress.status),
                &code::from_count(row.epoch.0),
                &code::from_count(row.last_seq.next().0),
                &code::from_count(row.active_ms),
                &code::from_money(row.settled),
                &self.0.progress,
            ],
        )
        .await?;
        Ok(inserted == 1)
    }

    async fn events(&self, client: &ClientWrapper) -> Result<(), Fault> {
        let (tenant, run) = read::key(&self.0.row().at);
        let sql = "INSERT INTO journal_events (tenant_id, run_id, seq, kind, step_id, attempt, payload, at)
            SELECT $1, $2, e.seq, e.kind, e.step_id, e.attempt, e.payload, e.at
            FROM unnest($3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bytea[], $8::bigint[])
                AS e (seq, kind, step_id, attempt, payload, at)";
        for portion in self.0.import.events().chunks(PORTION) {
            let new: Vec<_> = portion.iter().map(event).collect();
            let mut columns = events::Columns::default();
            for (record, event) in portion.iter().zip(&new) {
                // The request is not asked about here: its column holds the place in the journal.
                columns.add(code::from_count(record.seq.0), std::iter::once(event), record.at);
            }
            execute(
                client,
                sql,
                &[
                    &tenant,
                    &run,
                    &columns.request,
                    &columns.kind,
                    &columns.step_id,
                    &columns.attempt,
                    &columns.payload,
                    &columns.at,
                ],
            )
            .await?;
        }
        Ok(())
    }

    async fn usage(&self, client: &ClientWrapper) -> Result<(), Fault> {
        let row = self.0.row();
        let (tenant, run) = read::key(&row.at);
        let mut columns = usage::Columns::default();
        columns.add(0, &row.progress);
        let sql = "INSERT INTO usage (tenant_id, run_id, day, agent, agent_version, status, model, model_calls, tool_calls, tokens_in,
                tokens_out, tokens_cached, tokens_reasoning, cost, cost_is_estimate, imported)
            SELECT $1, $2, $3, $4, $5, $6, u.*, 1
            FROM unnest($7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
                $14::bigint[], $15::bigint[]) AS u";
        execute(
            client,
            sql,
            &[
                &tenant,
                &run,
                &row.created_at.day(),
                &row.agent.as_str(),
                &i64::from(row.agent_version),
                &code::from_status(row.progress.status),
                &columns.model,
                &columns.model_calls,
                &columns.tool_calls,
                &columns.tokens_in,
                &columns.tokens_out,
                &columns.tokens_cached,
                &columns.tokens_reasoning,
                &columns.cost,
                &columns.cost_is_estimate,
            ],
        )
        .await?;
        Ok(())
    }
}
