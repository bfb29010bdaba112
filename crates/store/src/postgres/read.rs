//! The reads, each strict: a row that this build could not have written is corrupt, and never guessed at.

use super::fault::Fault;
use crate::{code, sql};
use deadpool_postgres::ClientWrapper;
use portolan_core::{
    agent::{AgentName, AgentVersion},
    digest::Digest,
    event::Recorded,
    ids::{AgentId, Attempt, Epoch, KeyId, OwnerId, RunId, Seq, TenantId},
    key::ApiKey,
    time::Timestamp,
};
use portolan_journal::{
    Glance, Head, InboxEntry, InboxId, Progress, RunFilter, RunRef, RunRow, ScopeBooks, ScopeKey,
};
use tokio_postgres::{
    Row,
    types::{FromSql, ToSql},
};

/// Reads a column.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, place: usize) -> Result<T, Fault> {
    row.try_get(place)
        .map_err(|error| Fault::Corrupt(format!("a column cannot be read: {error}")))
}

/// Reads a column of so many bytes.
pub(super) fn bytes<const N: usize>(row: &Row, place: usize) -> Result<[u8; N], Fault> {
    fixed(get(row, place)?)
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Fault> {
    bytes
        .try_into()
        .map_err(|_| Fault::Corrupt(format!("{} bytes stand where {N} belong", bytes.len())))
}

pub(super) fn tenant(row: &Row, place: usize) -> Result<TenantId, Fault> {
    bytes(row, place).map(TenantId::from_bytes)
}

pub(super) fn run_id(row: &Row, place: usize) -> Result<RunId, Fault> {
    bytes(row, place).map(RunId::from_bytes)
}

/// A run as it is bound.
pub(super) fn key(run: &RunRef) -> (&[u8], &[u8]) {
    (run.tenant.as_bytes(), run.run.as_bytes())
}

pub(super) async fn query(
    client: &ClientWrapper,
    sql: &str,
    bound: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Fault> {
    let statement = client.prepare_cached(sql).await.map_err(Fault::Before)?;
    Ok(client.query(&statement, bound).await?)
}

/// Events strictly after a place.
pub(super) async fn journal(
    client: &ClientWrapper,
    run: RunRef,
    after: Seq,
    max: u32,
) -> Result<Vec<Recorded>, Fault> {
    let (tenant, id) = key(&run);
    let bound: [&(dyn ToSql + Sync); 4] = [&tenant, &id, &code::from_count(after.0), &i64::from(max)];
    events(run, after, &query(client, sql::EVENTS, &bound).await?)
}

/// All events of a run, with the gaps that they have: an audit wants to see them.
pub(super) async fn whole_journal(client: &ClientWrapper, run: RunRef) -> Result<Vec<Recorded>, Fault> {
    let (tenant, id) = key(&run);
    let rows = query(client, sql::ALL_EVENTS, &[&tenant, &id]).await?;
    rows.iter().map(recorded).collect()
}

/// Events strictly after a place, up to a weight. What is beyond it is neither read nor sent.
pub(super) async fn page(
    client: &ClientWrapper,
    run: RunRef,
    after: Seq,
    max: u32,
    max_bytes: usize,
) -> Result<Vec<Recorded>, Fault> {
    let sql = "SELECT seq, kind, step_id, attempt, payload, at FROM (
            SELECT *, sum(octet_length(payload)) OVER (ORDER BY seq) AS weight FROM journal_events
            WHERE tenant_id = $1 AND run_id = $2 AND seq > $3 ORDER BY seq LIMIT $4) AS page
        WHERE weight <= $5 OR seq = $3 + 1 ORDER BY seq";
    let (tenant, id) = key(&run);
    let bound: [&(dyn ToSql + Sync); 5] = [
        &tenant,
        &id,
        &code::from_count(after.0),
        &i64::from(max),
        &code::from_len(max_bytes),
    ];
    events(run, after, &query(client, sql, &bound).await?)
}

fn events(run: RunRef, after: Seq, rows: &[Row]) -> Result<Vec<Recorded>, Fault> {
    let mut found = Vec::with_capacity(rows.len());
    let mut expected = after.next();
    for row in rows {
        let event = recorded(row)?;
        if event.seq != expected {
            let what = format!("the journal of {} has no event {}", run.run, expected.0);
            return Err(Fault::Corrupt(what));
        }
        expected = event.seq.next();
        found.push(event);
    }
    Ok(found)
}

fn recorded(row: &Row) -> Result<Recorded, Fault> {
    let step: Option<i64> = get(row, 2)?;
    let attempt: Option<i64> = get(row, 3)?;
    Ok(Recorded {
        seq: Seq(code::count(get(row, 0)?)?),
        kind: String::from_utf8(get(row, 1)?)
            .map_err(|_| Fault::Corrupt("the name of a kind is no text".to_owned()))?,
        step: step.map(code::step).transpose()?,
        attempt: attempt.map(code::small).transpose()?.map(Attempt),
        payload: get(row, 4)?,
        at: Timestamp(get(row, 5)?),
    })
}

/// The row of a run.
pub(super) async fn run(client: &ClientWrapper, run: RunRef) -> Result<Option<RunRow>, Fault> {
    let (tenant, id) = key(&run);
    let rows = query(client, sql::RUN, &[&tenant, &id]).await?;
    rows.first().map(run_row).transpose()
}

/// How far these runs are, and how many commands wait for each.
pub(super) async fn heads(client: &ClientWrapper, runs: &[RunRef]) -> Result<Vec<(Head, u64)>, Fault> {
    let (tenants, ids): (Vec<&[u8]>, Vec<&[u8]>) = runs.iter().map(key).unzip();
    let sql = "SELECT r.tenant_id, r.run_id, r.next_seq, r.status, r.inbox_count
        FROM unnest($1::bytea[], $2::bytea[]) AS a (tenant_id, run_id)
        JOIN runs AS r ON r.tenant_id = a.tenant_id AND r.run_id = a.run_id";
    let rows = query(client, sql, &[&tenants, &ids]).await?;
    rows.iter()
        .map(|row| {
            let head = Head {
                at: RunRef {
                    tenant: tenant(row, 0)?,
                    run: run_id(row, 1)?,
                },
                last_seq: Seq(code::count(get::<i64>(row, 2)?.saturating_sub(1))?),
                ended: code::status(get(row, 3)?)?.is_terminal(),
            };
            Ok((head, code::count(get(row, 4)?)?))
        })
        .collect()
}

/// The row of a run with its first and its last event. The last one is that of the row: an event that was written between
/// the statements is not shown.
pub(super) async fn glance(client: &ClientWrapper, run: RunRef) -> Result<Option<Glance>, Fault> {
    let Some(row) = self::run(client, run).await? else {
        return Ok(None);
    };
    let before_last = Seq(row.last_seq.0.saturating_sub(1));
    let first = journal(client, run, Seq::ZERO, 1).await?.pop();
    let last = match before_last {
        Seq::ZERO => first.clone(),
        _ => journal(client, run, before_last, 1).await?.pop(),
    };
    let missing = || Fault::Corrupt(format!("the journal of {} has no events", run.run));
    let (first, last) = first.zip(last).ok_or_else(missing)?;
    Ok(Some(Glance { row, first, last }))
}

/// What an idempotency key made while it is kept.
pub(super) async fn idempotent(
    client: &ClientWrapper,
    tenant: TenantId,
    key: &str,
    at: Timestamp,
) -> Result<Option<(Digest, RunId)>, Fault> {
    let tenant = tenant.as_bytes().as_slice();
    let rows = query(client, sql::IDEMPOTENT, &[&tenant, &key, &at.0]).await?;
    rows.first()
        .map(|row| Ok((Digest(bytes(row, 0)?), run_id(row, 1)?)))
        .transpose()
}

/// The rows of a tenant, newest first.
pub(super) async fn list(
    client: &ClientWrapper,
    tenant: TenantId,
    filter: RunFilter,
    max: u32,
) -> Result<Vec<RunRow>, Fault> {
    type Bound = Box<dyn ToSql + Sync + Send>;
    let mut sql = sql::RUNS.to_owned();
    let mut bound: Vec<Bound> = vec![Box::new(tenant.as_bytes().to_vec())];
    let mut only = |condition: &str, value: Option<Bound>| {
        if let Some(value) = value {
            bound.push(value);
            sql.push_str(&condition.replace('?', &format!("${}", bound.len())));
        }
    };
    let boxed = |number: i64| -> Bound { Box::new(number) };
    let time = |at: Timestamp| boxed(at.0);
    only(
        " AND status = ?",
        filter.status.map(|status| boxed(code::from_status(status))),
    );
    only(
        " AND agent = ?",
        filter
            .agent
            .map(|agent| -> Bound { Box::new(String::from(agent)) }),
    );
    // Compared as it is written: what JSON can say and text cannot is no reason to fail.
    let tag = filter.tag.map(|tag| serde_json::to_string(&tag)).transpose();
    let tag = tag.map_err(|error| Fault::Refused(format!("the tag cannot be written: {error}")))?;
    only(
        " AND EXISTS (SELECT 1 FROM json_array_elements(tags::json) AS t (tag) WHERE t.tag::text = ?)",
        tag.map(|tag| -> Bound { Box::new(tag) }),
    );
    only(" AND created_at >= ?", filter.since.map(time));
    only(" AND created_at < ?", filter.until.map(time));
    only(
        " AND run_id < ?",
        filter
            .before
            .map(|run| -> Bound { Box::new(run.as_bytes().to_vec()) }),
    );
    only(" ORDER BY run_id DESC LIMIT ?", Some(boxed(max.into())));
    let bound: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value.as_ref() as _).collect();
    let rows = query(client, &sql, &bound).await?;
    rows.iter().map(run_row).collect()
}

fn run_row(row: &Row) -> Result<RunRow, Fault> {
    let progress: Progress = code::json(get(row, 17)?, "the progress of a run")?;
    if code::status(get(row, 6)?)? != progress.status {
        return Err(Fault::Corrupt(
            "the status of a run is not that of its progress".to_owned(),
        ));
    }
    let last_seq = get::<i64>(row, 8)?.checked_sub(1);
    let time = |at: Option<i64>| at.map(Timestamp);
    let owner: Option<&[u8]> = get(row, 13)?;
    Ok(RunRow {
        at: RunRef {
            tenant: tenant(row, 0)?,
            run: run_id(row, 1)?,
        },
        agent: code::agent_name(get(row, 2)?)?,
        agent_version: code::small(get(row, 3)?)?,
        tags: code::json(get(row, 4)?, "the tags of a run")?,
        created_at: Timestamp(get(row, 5)?),
        progress,
        epoch: Epoch(code::count(get(row, 7)?)?),
        last_seq: Seq(code::count(last_seq.unwrap_or(-1))?),
        redrives: code::small(get(row, 9)?)?,
        active_ms: code::count(get(row, 10)?)?,
        reserved: code::money(get(row, 11)?)?,
        settled: code::money(get(row, 12)?)?,
        owner: owner.map(fixed).transpose()?.map(OwnerId::from_bytes),
        lease_until: time(get(row, 14)?),
        wake_at: time(get(row, 15)?),
        cancel_requested_at: time(get(row, 16)?),
    })
}

/// The commands that wait for the owner of a run.
pub(super) async fn inbox(client: &ClientWrapper, run: RunRef) -> Result<Vec<InboxEntry>, Fault> {
    let (tenant, id) = key(&run);
    let rows = query(client, sql::INBOX, &[&tenant, &id]).await?;
    rows.iter()
        .map(|row| {
            Ok(InboxEntry {
                id: InboxId(code::count(get(row, 0)?)?),
                at: Timestamp(get(row, 1)?),
                command: code::json(get(row, 2)?, "a command")?,
            })
        })
        .collect()
}

/// The books of a scope, if it has a limit.
pub(super) async fn books(
    client: &ClientWrapper,
    tenant: TenantId,
    scope: &ScopeKey,
) -> Result<Option<ScopeBooks>, Fault> {
    let column = crate::judge::scope_column(scope);
    let rows = query(client, sql::BOOKS, &[&tenant.as_bytes().as_slice(), &column]).await?;
    rows.first()
        .map(|row| {
            Ok(ScopeBooks {
                limit: code::money(get(row, 0)?)?,
                settled: code::money(get(row, 1)?)?,
                reserved: code::money(get(row, 2)?)?,
            })
        })
        .transpose()
}

/// A version of an agent, or the newest.
pub(super) async fn agent(
    client: &ClientWrapper,
    tenant: TenantId,
    name: &AgentName,
    version: Option<u32>,
) -> Result<Option<AgentVersion>, Fault> {
    let version = version.map(i64::from);
    let tenant = tenant.as_bytes().as_slice();
    let rows = query(client, sql::AGENT, &[&tenant, &name.as_str(), &version]).await?;
    rows.first().map(agent_version).transpose()
}

/// The newest versions of the agents that are not retired, by name.
pub(super) async fn agents(
    client: &ClientWrapper,
    tenant: TenantId,
    after: Option<&AgentName>,
    limit: u32,
) -> Result<Vec<AgentVersion>, Fault> {
    let after = after.map_or("", AgentName::as_str);
    let tenant = tenant.as_bytes().as_slice();
    let rows = query(client, sql::AGENTS, &[&tenant, &after, &i64::from(limit)]).await?;
    rows.iter().map(agent_version).collect()
}

fn agent_version(row: &Row) -> Result<AgentVersion, Fault> {
    Ok(AgentVersion {
        id: AgentId::from_bytes(bytes(row, 0)?),
        version: code::small(get(row, 1)?)?,
        definition: code::json(get(row, 2)?, "an agent's definition")?,
        created_at: Timestamp(get(row, 3)?),
        retired: get::<i64>(row, 4)? != 0,
    })
}

/// The key with that hash.
pub(super) async fn key_by_hash(client: &ClientWrapper, hash: [u8; 32]) -> Result<Option<ApiKey>, Fault> {
    let rows = query(client, sql::KEY_BY_HASH, &[&hash.as_slice()]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(ApiKey {
        id: KeyId::from_bytes(bytes(row, 0)?),
        tenant: tenant(row, 1)?,
        name: get(row, 2)?,
        scopes: code::json(get(row, 3)?, "the scopes of a key")?,
        secret_hash: bytes(row, 4)?,
        created_at: Timestamp(get(row, 5)?),
        expires_at: get::<Option<i64>>(row, 6)?.map(Timestamp),
    }))
}

/// What lies under a digest, whole or damaged.
pub(super) async fn blob(client: &ClientWrapper, digest: Digest) -> Result<Option<Vec<u8>>, Fault> {
    let sql = "SELECT content FROM blobs WHERE digest = $1";
    let rows = query(client, sql, &[&digest.0.as_slice()]).await?;
    rows.first().map(|row| get(row, 0)).transpose()
}
