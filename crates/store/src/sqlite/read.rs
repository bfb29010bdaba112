//! The reads, each strict: a row that this build could not have written is corrupt, and never guessed at.

use super::{code, fault::Fault};
use crate::sql;
use portolan_core::{
    agent::{AgentName, AgentVersion},
    digest::Digest,
    event::Recorded,
    ids::{AgentId, Attempt, Epoch, KeyId, OwnerId, RunId, Seq, TenantId},
    key::ApiKey,
    time::Timestamp,
};
use portolan_journal::{Glance, Head, InboxEntry, InboxId, Progress, RunFilter, RunRef, RunRow};
use rusqlite::{
    Connection, Row, ToSql, params,
    types::{Value, ValueRef},
};
use serde::de::DeserializeOwned;

/// Events strictly after a place.
pub(super) fn journal(
    connection: &Connection,
    run: RunRef,
    after: Seq,
    max: u32,
) -> Result<Vec<Recorded>, Fault> {
    page(connection, run, after, max, usize::MAX)
}

/// Events strictly after a place, up to a weight. What is beyond it is not read from the disk.
pub(super) fn page(
    connection: &Connection,
    run: RunRef,
    after: Seq,
    max: u32,
    max_bytes: usize,
) -> Result<Vec<Recorded>, Fault> {
    let mut statement = connection.prepare_cached(sql::EVENTS)?;
    let mut rows = statement.query(params![
        run.tenant.as_bytes(),
        run.run.as_bytes(),
        code::from_count(after.0),
        max
    ])?;
    let mut found = Vec::new();
    let mut bytes = 0_usize;
    let mut expected = after.next();
    while let Some(row) = rows.next()? {
        bytes = bytes.saturating_add(row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?.len());
        if bytes > max_bytes && !found.is_empty() {
            break;
        }
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

/// All events of a run, with the gaps that they have: an audit wants to see them.
pub(super) fn whole_journal(connection: &Connection, run: RunRef) -> Result<Vec<Recorded>, Fault> {
    let mut statement = connection.prepare_cached(sql::ALL_EVENTS)?;
    let mut rows = statement.query(params![run.tenant.as_bytes(), run.run.as_bytes()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(recorded(row)?);
    }
    Ok(found)
}

fn recorded(row: &Row<'_>) -> Result<Recorded, Fault> {
    let step: Option<i64> = row.get(2)?;
    let attempt: Option<i64> = row.get(3)?;
    Ok(Recorded {
        seq: Seq(code::count(row.get(0)?)?),
        kind: code::kind(row.get_ref(1)?)?,
        step: step.map(code::step).transpose()?,
        attempt: attempt.map(code::small).transpose()?.map(Attempt),
        payload: row.get(4)?,
        at: Timestamp(row.get(5)?),
    })
}

/// The row of a run.
pub(super) fn run(connection: &Connection, run: RunRef) -> Result<Option<RunRow>, Fault> {
    let mut statement = connection.prepare_cached(sql::RUN)?;
    let mut rows = statement.query(params![run.tenant.as_bytes(), run.run.as_bytes()])?;
    rows.next()?.map(run_row).transpose()
}

/// How far these runs are.
pub(super) fn heads(connection: &Connection, runs: &[RunRef]) -> Result<Vec<Head>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT next_seq, status FROM runs WHERE tenant_id = ?1 AND run_id = ?2")?;
    let mut heads = Vec::with_capacity(runs.len());
    for at in runs {
        let mut rows = statement.query(params![at.tenant.as_bytes(), at.run.as_bytes()])?;
        if let Some(row) = rows.next()? {
            heads.push(Head {
                at: *at,
                last_seq: Seq(code::count(row.get::<_, i64>(0)?.saturating_sub(1))?),
                ended: code::status(row.get(1)?)?.is_terminal(),
            });
        }
    }
    Ok(heads)
}

/// The row of a run with its first and its last event. The last one is that of the row: an event that was written between
/// the two statements is not shown.
pub(super) fn glance(connection: &Connection, run: RunRef) -> Result<Option<Glance>, Fault> {
    let Some(row) = self::run(connection, run)? else {
        return Ok(None);
    };
    let before_last = Seq(row.last_seq.0.saturating_sub(1));
    let first = journal(connection, run, Seq::ZERO, 1)?.pop();
    let last = match before_last {
        Seq::ZERO => first.clone(),
        _ => journal(connection, run, before_last, 1)?.pop(),
    };
    let missing = || Fault::Corrupt(format!("the journal of {} has no events", run.run));
    let (first, last) = first.zip(last).ok_or_else(missing)?;
    Ok(Some(Glance { row, first, last }))
}

/// What an idempotency key made while it is kept.
pub(super) fn idempotent(
    connection: &Connection,
    tenant: TenantId,
    key: &str,
    at: Timestamp,
) -> Result<Option<(Digest, RunId)>, Fault> {
    let mut statement = connection.prepare_cached(sql::IDEMPOTENT)?;
    let mut rows = statement.query(params![tenant.as_bytes(), key, at.0])?;
    rows.next()?
        .map(|row| Ok((Digest(row.get(0)?), RunId::from_bytes(row.get(1)?))))
        .transpose()
}

/// The rows of a tenant, newest first.
pub(super) fn list(
    connection: &Connection,
    tenant: TenantId,
    filter: RunFilter,
    max: u32,
) -> Result<Vec<RunRow>, Fault> {
    let mut sql = sql::RUNS.to_owned();
    let mut bound: Vec<Value> = vec![Value::Blob(tenant.as_bytes().to_vec())];
    let mut only = |condition: &str, value: Option<Value>| {
        if let Some(value) = value {
            sql.push_str(condition);
            bound.push(value);
        }
    };
    let time = |at: Timestamp| Value::Integer(at.0);
    only(
        " AND status = ?",
        filter
            .status
            .map(|status| Value::Integer(code::from_status(status))),
    );
    only(
        " AND agent = ?",
        filter.agent.map(|agent| Value::Text(agent.into())),
    );
    only(
        " AND EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)",
        filter.tag.map(Value::Text),
    );
    only(" AND created_at >= ?", filter.since.map(time));
    only(" AND created_at < ?", filter.until.map(time));
    only(
        " AND run_id < ?",
        filter.before.map(|run| Value::Blob(run.as_bytes().to_vec())),
    );
    only(" ORDER BY run_id DESC LIMIT ?", Some(Value::Integer(max.into())));
    let mut statement = connection.prepare_cached(&sql)?;
    let bound: Vec<&dyn ToSql> = bound.iter().map(|value| value as &dyn ToSql).collect();
    let mut rows = statement.query(bound.as_slice())?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(run_row(row)?);
    }
    Ok(found)
}

fn run_row(row: &Row<'_>) -> Result<RunRow, Fault> {
    let progress: Progress = json(row.get_ref(17)?, "the progress of a run")?;
    if code::status(row.get(6)?)? != progress.status {
        return Err(Fault::corrupt("the status of a run is not that of its progress"));
    }
    let last_seq = row.get::<_, i64>(8)?.checked_sub(1);
    let time = |at: Option<i64>| at.map(Timestamp);
    Ok(RunRow {
        at: RunRef {
            tenant: TenantId::from_bytes(row.get(0)?),
            run: RunId::from_bytes(row.get(1)?),
        },
        agent: agent_name(row.get_ref(2)?)?,
        agent_version: code::small(row.get(3)?)?,
        tags: json(row.get_ref(4)?, "the tags of a run")?,
        created_at: Timestamp(row.get(5)?),
        progress,
        epoch: Epoch(code::count(row.get(7)?)?),
        last_seq: Seq(code::count(last_seq.unwrap_or(-1))?),
        redrives: code::small(row.get(9)?)?,
        active_ms: code::count(row.get(10)?)?,
        reserved: code::money(row.get(11)?)?,
        settled: code::money(row.get(12)?)?,
        owner: row.get::<_, Option<[u8; 16]>>(13)?.map(OwnerId::from_bytes),
        lease_until: time(row.get(14)?),
        wake_at: time(row.get(15)?),
        cancel_requested_at: time(row.get(16)?),
    })
}

/// The commands that wait for the owner of a run.
pub(super) fn inbox(connection: &Connection, run: RunRef) -> Result<Vec<InboxEntry>, Fault> {
    let mut statement = connection.prepare_cached(sql::INBOX)?;
    let mut rows = statement.query(params![run.tenant.as_bytes(), run.run.as_bytes()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(InboxEntry {
            id: InboxId(code::count(row.get(0)?)?),
            at: Timestamp(row.get(1)?),
            command: json(row.get_ref(2)?, "a command")?,
        });
    }
    Ok(found)
}

/// A version of an agent, or the newest.
pub(super) fn agent(
    connection: &Connection,
    tenant: TenantId,
    name: &AgentName,
    version: Option<u32>,
) -> Result<Option<AgentVersion>, Fault> {
    let mut statement = connection.prepare_cached(sql::AGENT)?;
    let mut rows = statement.query(params![tenant.as_bytes(), name.as_str(), version])?;
    rows.next()?.map(agent_version).transpose()
}

/// The newest versions of the agents that are not retired, by name.
pub(super) fn agents(
    connection: &Connection,
    tenant: TenantId,
    after: Option<&AgentName>,
    limit: u32,
) -> Result<Vec<AgentVersion>, Fault> {
    let mut statement = connection.prepare_cached(sql::AGENTS)?;
    let after = after.map_or("", AgentName::as_str);
    let mut rows = statement.query(params![tenant.as_bytes(), after, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(agent_version(row)?);
    }
    Ok(found)
}

fn agent_version(row: &Row<'_>) -> Result<AgentVersion, Fault> {
    Ok(AgentVersion {
        id: AgentId::from_bytes(row.get(0)?),
        version: code::small(row.get(1)?)?,
        definition: json(row.get_ref(2)?, "an agent's definition")?,
        created_at: Timestamp(row.get(3)?),
        retired: row.get(4)?,
    })
}

/// The key with that hash.
pub(super) fn key_by_hash(connection: &Connection, hash: [u8; 32]) -> Result<Option<ApiKey>, Fault> {
    let mut statement = connection.prepare_cached(sql::KEY_BY_HASH)?;
    let mut rows = statement.query([hash])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(ApiKey {
        id: KeyId::from_bytes(row.get(0)?),
        tenant: TenantId::from_bytes(row.get(1)?),
        name: row.get(2)?,
        scopes: json(row.get_ref(3)?, "the scopes of a key")?,
        secret_hash: row.get(4)?,
        created_at: Timestamp(row.get(5)?),
        expires_at: row.get::<_, Option<i64>>(6)?.map(Timestamp),
    }))
}

/// The name of an agent.
pub(super) fn agent_name(value: ValueRef<'_>) -> Result<AgentName, Fault> {
    let text = value.as_str().unwrap_or_default();
    Ok(code::agent_name(text)?)
}

fn json<T: DeserializeOwned>(value: ValueRef<'_>, what: &str) -> Result<T, Fault> {
    let text = value
        .as_str()
        .map_err(|_| Fault::corrupt(format_args!("{what} is no text")))?;
    Ok(code::json(text, what)?)
}
