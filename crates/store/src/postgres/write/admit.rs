//! Admission: the run, its first event, its money and its key, or nothing.

use super::{
    super::{
        fault::Fault,
        hint::News,
        lane::{Commit, Write},
        read,
    },
    budget, events, execute, query,
};
use crate::{code, judge};
use deadpool_postgres::ClientWrapper;
use portolan_core::{
    Fut,
    faults::{self, Point},
    ids::{Epoch, Seq},
};
use portolan_journal::{Admission, Admitted, IdempotencyClaim, Progress};

/// Expired keys that are cleared away at most each time: more than the admissions between two times add.
const CLEARED: i64 = 2_000;

/// A run that wants to exist.
pub(in super::super) struct Admit {
    admission: Admission,
    tags: String,
    progress: String,
}

/// Makes the runs of tenants without limits. A key that is taken by another run, or may still be, leaves its run out.
const GROUP: &str = "
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::text[], $5::bigint[], $6::text[], $7::bigint[],
        $8::bigint[], $9::bigint[], $10::bytea[], $11::bigint[], $12::text[], $13::text[], $14::bytea[], $15::bigint[])
    AS a (request, tenant_id, run_id, agent, agent_version, tags, created_at, epoch, reserved, owner, lease_until, progress,
        key, fingerprint, expires_at)
    WHERE NOT EXISTS (SELECT 1 FROM budget_scopes AS b WHERE b.tenant_id = a.tenant_id)
), keyed AS (
    INSERT INTO idempotency_keys AS k (tenant_id, key, fingerprint, run_id, expires_at)
    SELECT tenant_id, key, fingerprint, run_id, expires_at FROM asked WHERE key IS NOT NULL
    ON CONFLICT (tenant_id, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, run_id = excluded.run_id, expires_at = excluded.expires_at
        WHERE k.expires_at <= $16
    RETURNING k.tenant_id, k.run_id
), made AS (
    INSERT INTO runs (tenant_id, run_id, agent, agent_version, tags, created_at, status, epoch, next_seq, reserved, owner,
        lease_until, progress)
    SELECT a.tenant_id, a.run_id, a.agent, a.agent_version, a.tags, a.created_at, 0, a.epoch, 2, a.reserved, a.owner,
        a.lease_until, a.progress
    FROM asked AS a
    WHERE a.key IS NULL
        OR EXISTS (SELECT 1 FROM keyed AS k WHERE k.tenant_id = a.tenant_id AND k.run_id = a.run_id)
    RETURNING tenant_id, run_id
), written AS (
    INSERT INTO journal_events (tenant_id, run_id, seq, kind, step_id, attempt, payload, at)
    SELECT a.tenant_id, a.run_id, 1 + e.place, e.kind, e.step_id, e.attempt, e.payload, e.at
    FROM asked AS a JOIN made USING (tenant_id, run_id)
        JOIN unnest($17::bigint[], $18::bigint[], $19::bytea[], $20::bigint[], $21::bigint[], $22::bytea[], $23::bigint[])
        AS e (request, place, kind, step_id, attempt, payload, at) ON e.request = a.request
)
SELECT a.request FROM asked AS a JOIN made USING (tenant_id, run_id)";

/// The rows of a group.
#[derive(Default)]
struct Columns<'a> {
    request: Vec<i64>,
    tenant_id: Vec<&'a [u8]>,
    run_id: Vec<&'a [u8]>,
    agent: Vec<&'a str>,
    agent_version: Vec<i64>,
    tags: Vec<&'a str>,
    created_at: Vec<i64>,
    epoch: Vec<i64>,
    reserved: Vec<i64>,
    owner: Vec<Option<&'a [u8]>>,
    lease_until: Vec<Option<i64>>,
    progress: Vec<&'a str>,
    key: Vec<Option<&'a str>>,
    fingerprint: Vec<Option<&'a [u8]>>,
    expires_at: Vec<Option<i64>>,
}

impl Admit {
    pub(in super::super) fn new(admission: Admission) -> serde_json::Result<Self> {
        Ok(Self {
            tags: serde_json::to_string(&admission.tags)?,
            progress: serde_json::to_string(&Progress::default())?,
            admission,
        })
    }

    fn created(&self) -> Admitted {
        Admitted::Created {
            epoch: self.admission.claim.map(|_| Epoch(1)),
        }
    }
}

impl<'a> Columns<'a> {
    fn add(&mut self, number: i64, admit: &'a Admit) {
        let admission = &admit.admission;
        self.request.push(number);
        self.tenant_id.push(admission.run.tenant.as_bytes());
        self.run_id.push(admission.run.run.as_bytes());
        self.agent.push(admission.agent.as_str());
        self.agent_version.push(admission.agent_version.into());
        self.tags.push(&admit.tags);
        self.created_at.push(admission.at.0);
        self.epoch.push(i64::from(admission.claim.is_some()));
        self.reserved.push(code::from_money(admission.reserve));
        let claim = admission.claim.as_ref();
        self.owner
            .push(claim.map(|claim| claim.owner.as_bytes().as_slice()));
        self.lease_until.push(claim.map(|claim| claim.lease_until.0));
        self.progress.push(&admit.progress);
        let key = admission.idempotency.as_ref();
        self.key.push(key.map(|key| key.key.as_str()));
        self.fingerprint.push(key.map(|key| key.fingerprint.0.as_slice()));
        self.expires_at.push(key.map(|key| key.expires_at.0));
    }
}

/// Makes what it can of a group. `None` for a request that the statement left out, for whatever reason.
pub(in super::super) async fn group(
    client: &ClientWrapper,
    requests: &[&Admit],
) -> Result<Vec<Option<Admitted>>, Fault> {
    let mut rows = Columns::default();
    let mut written = events::Columns::default();
    for (number, admit) in (0..).zip(requests.iter().copied()) {
        rows.add(number, admit);
        let admission = &admit.admission;
        written.add(number, std::iter::once(&admission.queued), admission.at);
    }
    // A key is certainly free if it was so at the earliest of the moments; the others are looked at one by one.
    let now = requests
        .iter()
        .map(|admit| admit.admission.at.0)
        .min()
        .unwrap_or_default();
    let made = query(
        client,
        GROUP,
        &[
            &rows.request,
            &rows.tenant_id,
            &rows.run_id,
            &rows.agent,
            &rows.agent_version,
            &rows.tags,
            &rows.created_at,
            &rows.epoch,
            &rows.reserved,
            &rows.owner,
            &rows.lease_until,
            &rows.progress,
            &rows.key,
            &rows.fingerprint,
            &rows.expires_at,
            &now,
            &written.request,
            &written.place,
            &written.kind,
            &written.step_id,
            &written.attempt,
            &written.payload,
            &written.at,
        ],
    )
    .await?;
    let mut answers = vec![None; requests.len()];
    for row in made {
        let number: i64 = read::get(&row, 0)?;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if let (Some(place), Some(admit)) = (answers.get_mut(number), requests.get(number)) {
            *place = Some(admit.created());
        }
    }
    Ok(answers)
}

impl Write for Admit {
    type Answer = Admitted;
    const COMMIT: Commit = Commit::Transaction;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<Admitted, Fault>> {
        Box::pin(alone(self, client))
    }

    fn announce(&self, answer: &Admitted, news: &News) {
        match answer {
            Admitted::Created { .. } => news.committed(self.admission.run, Seq(1), false),
            Admitted::Replayed(_) | Admitted::KeyReused | Admitted::OverBudget { .. } => {}
        }
    }
}

/// Looks at the key, locks the scopes, and judges.
async fn alone(admit: &Admit, client: &ClientWrapper) -> Result<Admitted, Fault> {
    let admission = &admit.admission;
    let Admission {
        run,
        agent,
        reserve,
        idempotency,
        at,
        ..
    } = admission;
    if let Some(claim) = idempotency
        && let Some((fingerprint, made)) = read::idempotent(client, run.tenant, &claim.key, *at).await?
    {
        return Ok(if fingerprint == claim.fingerprint {
            Admitted::Replayed(made)
        } else {
            Admitted::KeyReused
        });
    }
    let mut books = budget::lock(client, run.tenant, agent).await?;
    if let Some(scope) = judge::without_room(&books, *reserve) {
        return Ok(Admitted::OverBudget { scope });
    }
    if let Some(claim) = idempotency {
        keep_key(client, admission, claim).await?;
        if faults::at(Point::KeyKept).await.is_some() {
            return Err(Fault::pretended());
        }
    }
    insert(client, admit).await?;
    if faults::at(Point::AdmitHalf).await.is_some() {
        return Err(Fault::pretended());
    }
    for open in &mut books {
        open.books.reserved = open.books.reserved.saturating_add(*reserve);
    }
    budget::keep(client, run.tenant, &books).await?;
    Ok(admit.created())
}

/// Takes the key, unless another run has it by now.
async fn keep_key(
    client: &ClientWrapper,
    admission: &Admission,
    claim: &IdempotencyClaim,
) -> Result<(), Fault> {
    let (tenant, run) = read::key(&admission.run);
    let sql = "INSERT INTO idempotency_keys AS k (tenant_id, key, fingerprint, run_id, expires_at) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant_id, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, run_id = excluded.run_id, expires_at = excluded.expires_at
        WHERE k.expires_at <= $6";
    let fingerprint = claim.fingerprint.0.as_slice();
    let bound: [&(dyn tokio_postgres::types::ToSql + Sync); 6] = [
        &tenant,
        &claim.key,
        &fingerprint,
        &run,
        &claim.expires_at.0,
        &admission.at.0,
    ];
    match execute(client, sql, &bound).await? {
        0 => Err(Fault::Again),
        _ => Ok(()),
    }
}

async fn insert(client: &ClientWrapper, admit: &Admit) -> Result<(), Fault> {
    let admission = &admit.admission;
    let mut row = Columns::default();
    row.add(0, admit);
    let sql = "INSERT INTO runs (tenant_id, run_id, agent, agent_version, tags, created_at, status, epoch, next_seq, reserved,
            owner, lease_until, progress)
        SELECT a.tenant_id, a.run_id, a.agent, a.agent_version, a.tags, a.created_at, 0, a.epoch, 2, a.reserved, a.owner,
            a.lease_until, a.progress
        FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bytea[], $10::bigint[], $11::text[])
            AS a (tenant_id, run_id, agent, agent_version, tags, created_at, epoch, reserved, owner, lease_until, progress)
        ON CONFLICT (tenant_id, run_id) DO NOTHING";
    let inserted = execute(
        client,
        sql,
        &[
            &row.tenant_id,
            &row.run_id,
            &row.agent,
            &row.agent_version,
            &row.tags,
            &row.created_at,
            &row.epoch,
            &row.reserved,
            &row.owner,
            &row.lease_until,
            &row.progress,
        ],
    )
    .await?;
    if inserted == 0 {
        let what = format!("there is a run {} already", admission.run.run);
        return Err(Fault::Refused(what));
    }
    let mut written = events::Columns::default();
    written.add(0, std::iter::once(&admission.queued), admission.at);
    let (tenant, run) = read::key(&admission.run);
    let sql = "INSERT INTO journal_events (tenant_id, run_id, seq, kind, step_id, attempt, payload, at)
        SELECT $1, $2, 1, e.kind, e.step_id, e.attempt, e.payload, e.at
        FROM unnest($3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bigint[])
            AS e (kind, step_id, attempt, payload, at)";
    execute(
        client,
        sql,
        &[
            &tenant,
            &run,
            &written.kind,
            &written.step_id,
            &written.attempt,
            &written.payload,
            &written.at,
        ],
    )
    .await?;
    Ok(())
}

/// Takes away expired keys of the tenants of a group. It is a statement of its own, and of no importance: the next one comes by.
pub(in super::super) async fn clear_keys(client: &ClientWrapper, requests: &[&Admit]) -> Result<(), Fault> {
    let keyed = requests
        .iter()
        .filter(|admit| admit.admission.idempotency.is_some());
    let (mut tenants, mut now) = (Vec::new(), i64::MAX);
    for admit in keyed {
        tenants.push(admit.admission.run.tenant.as_bytes().as_slice());
        now = now.min(admit.admission.at.0);
    }
    tenants.sort_unstable();
    tenants.dedup();
    if tenants.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM idempotency_keys WHERE (tenant_id, key) IN (
            SELECT tenant_id, key FROM idempotency_keys WHERE tenant_id = ANY ($1::bytea[]) AND expires_at <= $2
            LIMIT $3 FOR UPDATE SKIP LOCKED)";
    execute(client, sql, &[&tenants, &now, &CLEARED]).await?;
    Ok(())
}
