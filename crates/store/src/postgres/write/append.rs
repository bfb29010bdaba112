//! Appends: a group of them in one statement, or one in a transaction.

use super::{
    super::{
        fault::Fault,
        hint::News,
        lane::{Commit, Write},
        read,
    },
    budget, events, query, usage,
};
use crate::{code, judge::PreparedAppend};
use deadpool_postgres::ClientWrapper;
use portolan_core::{
    Fut,
    agent::AgentName,
    faults::{self, Point},
    ids::Seq,
    money::NanoUsd,
};
use portolan_journal::{Appended, InboxEntry, RunStatus};

/// Changes the rows whose generation and place hold, writes the events of those alone, and the usage of those that end. Left
/// out is what one statement cannot judge: runs in a budget, and requests that answer commands while some wait.
const GROUP: &str = "
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
        $8::text[], $9::bigint[], $10::boolean[], $11::bigint[], $12::bigint[], $13::bigint[], $14::boolean[], $15::bigint[],
        $16::boolean[])
    AS a (request, tenant_id, run_id, epoch, after, status, events, progress, active_ms, advances, was_held, topped_up, spent,
        releases, wake_at, answers)
), changed AS (
    UPDATE runs AS r SET
        next_seq = r.next_seq + a.events,
        status = a.status,
        progress = a.progress,
        active_ms = greatest(r.active_ms, a.active_ms),
        redrives = CASE WHEN a.advances THEN 0 ELSE r.redrives END,
        reserved = CASE WHEN a.status >= 3 THEN 0
            ELSE least(greatest(r.reserved - a.was_held, 0), 9223372036854775807 - a.topped_up) + a.topped_up END,
        settled = least(r.settled, 9223372036854775807 - a.spent) + a.spent,
        owner = CASE WHEN a.releases OR a.status >= 3 THEN NULL ELSE r.owner END,
        lease_until = CASE WHEN a.releases OR a.status >= 3 THEN NULL ELSE r.lease_until END,
        wake_at = CASE WHEN a.releases THEN a.wake_at WHEN r.status = 2 AND a.status = 2 THEN r.wake_at END
    FROM asked AS a
    WHERE r.tenant_id = a.tenant_id AND r.run_id = a.run_id AND r.epoch = a.epoch AND r.status < 3
        AND r.next_seq = coalesce(a.after, r.next_seq)
        AND (r.inbox_count = 0 OR NOT a.answers)
        AND NOT EXISTS (SELECT 1 FROM budget_scopes AS b WHERE b.tenant_id = a.tenant_id)
    RETURNING a.request, r.tenant_id, r.run_id, r.next_seq, a.events, r.inbox_count, r.agent, r.agent_version, r.created_at,
        a.status
), written AS (
    INSERT INTO journal_events (tenant_id, run_id, seq, kind, step_id, attempt, payload, at)
    SELECT c.tenant_id, c.run_id, c.next_seq - c.events + e.place, e.kind, e.step_id, e.attempt, e.payload, e.at
    FROM changed AS c JOIN unnest($17::bigint[], $18::bigint[], $19::bytea[], $20::bigint[], $21::bigint[], $22::bytea[],
        $23::bigint[]) AS e (request, place, kind, step_id, attempt, payload, at) ON e.request = c.request
), counted AS (
    INSERT INTO usage (tenant_id, run_id, day, agent, agent_version, model, status, model_calls, tool_calls, tokens_in,
        tokens_out, tokens_cached, tokens_reasoning, cost, cost_is_estimate)
    SELECT c.tenant_id, c.run_id, floor(c.created_at / 86400000000.0)::bigint, c.agent, c.agent_version, u.model, c.status,
        u.model_calls, u.tool_calls, u.tokens_in, u.tokens_out, u.tokens_cached, u.tokens_reasoning, u.cost, u.cost_is_estimate
    FROM changed AS c JOIN unnest($24::bigint[], $25::text[], $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[],
        $30::bigint[], $31::bigint[], $32::bigint[], $33::bigint[])
        AS u (request, model, model_calls, tool_calls, tokens_in, tokens_out, tokens_cached, tokens_reasoning, cost,
            cost_is_estimate) ON u.request = c.request
)
SELECT request, next_seq, inbox_count FROM changed";

/// An append that landed with its group.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Landed {
    last_seq: Seq,
    commands: i64,
}

/// The rows of a group.
#[derive(Default)]
struct Columns<'a> {
    request: Vec<i64>,
    tenant_id: Vec<&'a [u8]>,
    run_id: Vec<&'a [u8]>,
    epoch: Vec<i64>,
    after: Vec<Option<i64>>,
    status: Vec<i64>,
    events: Vec<i64>,
    progress: Vec<&'a str>,
    active_ms: Vec<i64>,
    advances: Vec<bool>,
    was_held: Vec<i64>,
    topped_up: Vec<i64>,
    spent: Vec<i64>,
    releases: Vec<bool>,
    wake_at: Vec<Option<i64>>,
    answers: Vec<bool>,
}

/// Writes a group. `None` for a request that the statement left out, for whatever reason.
pub(in super::super) async fn group(
    client: &ClientWrapper,
    requests: &[&PreparedAppend],
) -> Result<Vec<Option<Landed>>, Fault> {
    let mut rows = Columns::default();
    let (mut written, mut ended) = (events::Columns::default(), usage::Columns::default());
    // In the order of the runs, so that two groups take their locks alike.
    let mut ordered: Vec<(i64, &PreparedAppend)> = (0..).zip(requests.iter().copied()).collect();
    ordered.sort_unstable_by_key(|(_, request)| request.append.run);
    for (number, request) in ordered {
        let (append, ending, settle) = (&request.append, request.ending(true), request.settle());
        let status = ending.progress.status;
        let events = request.events(&ending);
        rows.request.push(number);
        rows.tenant_id.push(append.run.tenant.as_bytes());
        rows.run_id.push(append.run.run.as_bytes());
        rows.epoch.push(code::from_count(append.epoch.0));
        rows.after.push(next_place(append.after));
        rows.status.push(code::from_status(status));
        rows.events.push(code::from_len(events.len()));
        rows.progress.push(ending.json);
        rows.active_ms.push(code::from_count(append.active_ms));
        rows.advances.push(append.advances);
        rows.was_held.push(code::from_money(settle.reserved));
        rows.topped_up.push(code::from_money(ending.topped_up));
        rows.spent.push(code::from_money(settle.actual));
        rows.releases.push(append.release.is_some());
        rows.wake_at
            .push(append.release.and_then(|release| release.wake_at).map(|at| at.0));
        rows.answers
            .push(!append.consumed.is_empty() || status.is_terminal());
        written.add(number, events.into_iter(), append.at);
        if status.is_terminal() {
            ended.add(number, ending.progress);
        }
    }
    let changed = query(
        client,
        GROUP,
        &[
            &rows.request,
            &rows.tenant_id,
            &rows.run_id,
            &rows.epoch,
            &rows.after,
            &rows.status,
            &rows.events,
            &rows.progress,
            &rows.active_ms,
            &rows.advances,
            &rows.was_held,
            &rows.topped_up,
            &rows.spent,
            &rows.releases,
            &rows.wake_at,
            &rows.answers,
            &written.request,
            &written.place,
            &written.kind,
            &written.step_id,
            &written.attempt,
            &written.payload,
            &written.at,
            &ended.request,
            &ended.model,
            &ended.model_calls,
            &ended.tool_calls,
            &ended.tokens_in,
            &ended.tokens_out,
            &ended.tokens_cached,
            &ended.tokens_reasoning,
            &ended.cost,
            &ended.cost_is_estimate,
        ],
    )
    .await?;
    let mut landed = vec![None; requests.len()];
    for row in changed {
        let number: i64 = read::get(&row, 0)?;
        let place = usize::try_from(number)
            .ok()
            .and_then(|number| landed.get_mut(number));
        let place = place.ok_or_else(|| Fault::Corrupt("a statement answered for nobody".to_owned()))?;
        *place = Some(Landed {
            last_seq: seq_before(read::get(&row, 1)?)?,
            commands: read::get(&row, 2)?,
        });
    }
    Ok(landed)
}

/// What the caller of a landed append hears. Its commands are read now; if that fails, the owner is told to look for itself.
pub(in super::super) async fn answer(
    client: &ClientWrapper,
    request: &PreparedAppend,
    landed: Landed,
    news: &News,
) -> Appended {
    let Landed { last_seq, commands } = landed;
    let inbox = match commands {
        0 => Vec::new(),
        _ => match read::inbox(client, request.append.run).await {
            Ok(inbox) => inbox,
            Err(error) => {
                tracing::warn!(%error, "commands could not be read after an append");
                news.commanded_here(request.append.run);
                Vec::new()
            }
        },
    };
    Appended::Committed { last_seq, inbox }
}

fn next_place(after: Option<Seq>) -> Option<i64> {
    after.map(|after| code::from_count(after.next().0))
}

fn seq_before(next_seq: i64) -> Result<Seq, Fault> {
    Ok(Seq(code::count(next_seq.saturating_sub(1))?))
}

impl Write for PreparedAppend {
    type Answer = Appended;
    const COMMIT: Commit = Commit::Transaction;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<Appended, Fault>> {
        Box::pin(alone(self, client))
    }

    fn announce(&self, answer: &Appended, news: &News) {
        let (last_seq, granted) = match answer {
            Appended::Committed { last_seq, .. } => (*last_seq, true),
            Appended::TopUpRefused { last_seq, .. } => (*last_seq, false),
            Appended::Fenced | Appended::Elsewhere => return,
        };
        let ended = self.ending(granted).progress.status.is_terminal();
        // A hint that is lost costs readers a moment, and no event.
        if ended && faults::at_blocking(Point::EndUnannounced).is_some() {
            return;
        }
        news.committed(self.append.run, last_seq, ended);
    }
}

/// What an append has to know about its run.
struct Row {
    agent: AgentName,
    status: i64,
    reserved: NanoUsd,
    settled: NanoUsd,
    wake_at: Option<i64>,
    next_seq: i64,
}

/// Locks the row of the run, then its scopes, and judges.
async fn alone(request: &PreparedAppend, client: &ClientWrapper) -> Result<Appended, Fault> {
    let append = &request.append;
    let Some(row) = lock(request, client).await? else {
        return Ok(Appended::Fenced);
    };
    if next_place(append.after).is_some_and(|place| place != row.next_seq) {
        return Ok(Appended::Elsewhere);
    }
    let books = budget::lock(client, append.run.tenant, &row.agent).await?;
    let decision = request.decide(row.reserved, row.settled, books);
    let inbox = read::inbox(client, append.run).await?;
    let kept = request.remaining(inbox, decision.ended());
    let refused = decision.refused.clone();
    budget::keep(client, append.run.tenant, &decision.books).await?;
    clear_inbox(request, client, &kept).await?;
    if faults::at(Point::AppendHalf).await.is_some() {
        return Err(Fault::pretended());
    }
    let next_seq = change(request, client, &row, &decision, &kept).await?;
    let last_seq = seq_before(next_seq)?;
    Ok(match refused {
        Some(scope) => Appended::TopUpRefused {
            last_seq,
            inbox: kept,
            scope,
        },
        None => Appended::Committed {
            last_seq,
            inbox: kept,
        },
    })
}

/// The row, unless the writer is fenced.
async fn lock(request: &PreparedAppend, client: &ClientWrapper) -> Result<Option<Row>, Fault> {
    let append = &request.append;
    let sql = "SELECT agent, status, reserved, settled, wake_at, next_seq FROM runs
        WHERE tenant_id = $1 AND run_id = $2 AND epoch = $3 AND status < 3 FOR NO KEY UPDATE";
    let (tenant, run) = read::key(&append.run);
    let rows = query(client, sql, &[&tenant, &run, &code::from_count(append.epoch.0)]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Row {
        agent: code::agent_name(read::get(row, 0)?)?,
        status: read::get(row, 1)?,
        reserved: code::money(read::get(row, 2)?)?,
        settled: code::money(read::get(row, 3)?)?,
        wake_at: read::get(row, 4)?,
        next_seq: read::get(row, 5)?,
    }))
}

/// The row, the events and the usage of one run, whose lock is held.
const ALONE: &str = "
WITH changed AS (
    UPDATE runs SET next_seq = next_seq + $4, status = $5, progress = $6, active_ms = greatest(active_ms, $7),
        redrives = CASE WHEN $8 THEN 0 ELSE redrives END, reserved = $9, settled = $10,
        owner = CASE WHEN $11 THEN NULL ELSE owner END, lease_until = CASE WHEN $11 THEN NULL ELSE lease_until END,
        wake_at = $12, inbox_count = $13, cancel_requested_at = $14
    WHERE tenant_id = $1 AND run_id = $2 AND epoch = $3
    RETURNING tenant_id, run_id, next_seq, agent, agent_version, created_at, status
), written AS (
    INSERT INTO journal_events (tenant_id, run_id, seq, kind, step_id, attempt, payload, at)
    SELECT c.tenant_id, c.run_id, c.next_seq - $4 + e.place, e.kind, e.step_id, e.attempt, e.payload, e.at
    FROM changed AS c CROSS JOIN unnest($15::bigint[], $16::bytea[], $17::bigint[], $18::bigint[], $19::bytea[], $20::bigint[])
        AS e (place, kind, step_id, attempt, payload, at)
), counted AS (
    INSERT INTO usage (tenant_id, run_id, day, agent, agent_version, model, status, model_calls, tool_calls, tokens_in,
        tokens_out, tokens_cached, tokens_reasoning, cost, cost_is_estimate)
    SELECT c.tenant_id, c.run_id, floor(c.created_at / 86400000000.0)::bigint, c.agent, c.agent_version, u.model, c.status,
        u.model_calls, u.tool_calls, u.tokens_in, u.tokens_out, u.tokens_cached, u.tokens_reasoning, u.cost, u.cost_is_estimate
    FROM changed AS c CROSS JOIN unnest($21::text[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[],
        $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[])
        AS u (model, model_calls, tool_calls, tokens_in, tokens_out, tokens_cached, tokens_reasoning, cost, cost_is_estimate)
)
SELECT next_seq FROM changed";

async fn change(
    request: &PreparedAppend,
    client: &ClientWrapper,
    row: &Row,
    decision: &crate::judge::Decision<'_>,
    kept: &[InboxEntry],
) -> Result<i64, Fault> {
    let (append, ending) = (&request.append, &decision.ending);
    let status = ending.progress.status;
    let stays_waiting = row.status == code::from_status(RunStatus::Waiting) && status == RunStatus::Waiting;
    let wake_at = match append.release {
        Some(release) => release.wake_at.map(|at| at.0),
        None => row.wake_at.filter(|_| stays_waiting),
    };
    let events = request.events(ending);
    let total = code::from_len(events.len());
    let mut written = events::Columns::default();
    written.add(0, events.into_iter(), append.at);
    let mut ended = usage::Columns::default();
    if decision.ended() {
        ended.add(0, ending.progress);
    }
    let (tenant, run) = read::key(&append.run);
    let rows = query(
        client,
        ALONE,
        &[
            &tenant,
            &run,
            &code::from_count(append.epoch.0),
            &total,
            &code::from_status(status),
            &ending.json,
            &code::from_count(append.active_ms),
            &append.advances,
            &code::from_money(decision.reserved),
            &code::from_money(decision.settled),
            &(decision.ended() || append.release.is_some()),
            &wake_at,
            &code::from_len(kept.len()),
            &kept.iter().map(|entry| entry.at.0).min(),
            &written.place,
            &written.kind,
            &written.step_id,
            &written.attempt,
            &written.payload,
            &written.at,
            &ended.model,
            &ended.model_calls,
            &ended.tool_calls,
            &ended.tokens_in,
            &ended.tokens_out,
            &ended.tokens_cached,
            &ended.tokens_reasoning,
            &ended.cost,
            &ended.cost_is_estimate,
        ],
    )
    .await?;
    let changed = rows.first();
    let changed = changed
        .ok_or_else(|| Fault::Corrupt("a run changed under the lock that was held on it".to_owned()))?;
    read::get(changed, 0)
}

async fn clear_inbox(
    request: &PreparedAppend,
    client: &ClientWrapper,
    kept: &[InboxEntry],
) -> Result<(), Fault> {
    let kept: Vec<i64> = kept.iter().map(|entry| code::from_count(entry.id.0)).collect();
    let sql = "DELETE FROM inbox WHERE tenant_id = $1 AND run_id = $2 AND inbox_id <> ALL ($3)";
    let (tenant, run) = read::key(&request.append.run);
    super::execute(client, sql, &[&tenant, &run, &kept]).await?;
    Ok(())
}
