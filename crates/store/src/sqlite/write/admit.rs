//! Admission: the run, its first event, its money and its key, or nothing.

use super::{
    super::{
        batch::{Tx, Write},
        code,
        fault::Fault,
        read,
    },
    budget, events,
};
use crate::judge;
use portolan_core::{
    faults::{self, Point},
    ids::{Epoch, Seq},
};
use portolan_journal::{Admission, Admitted, Hub, IdempotencyClaim, Progress, RunRef, RunStatus};
use rusqlite::{Connection, params};

/// Expired keys that an admission clears away at most: more than it adds, so that they do not pile up.
const CLEARED: i64 = 2;

/// A run that wants to exist.
pub(in super::super) struct Admit {
    admission: Admission,
    tags: String,
    progress: String,
}

impl Admit {
    pub(in super::super) fn new(admission: Admission) -> serde_json::Result<Self> {
        Ok(Self {
            tags: serde_json::to_string(&admission.tags)?,
            progress: serde_json::to_string(&Progress::default())?,
            admission,
        })
    }

    fn insert_run(&self, connection: &Connection) -> Result<(), Fault> {
        let Admission { run, claim, .. } = &self.admission;
        let inserted = connection
            .prepare_cached(
                "INSERT INTO runs (tenant_id, run_id, agent, agent_version, tags, created_at, status, epoch, next_seq, reserved,
                     owner, lease_until, progress)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 2, ?9, ?10, ?11, ?12)
                 ON CONFLICT (tenant_id, run_id) DO NOTHING",
            )?
            .execute(params![
                run.tenant.as_bytes(),
                run.run.as_bytes(),
                self.admission.agent.as_str(),
                self.admission.agent_version,
                self.tags,
                self.admission.at.0,
                code::from_status(RunStatus::Queued),
                i64::from(claim.is_some()),
                code::from_money(self.admission.reserve),
                claim.as_ref().map(|claim| *claim.owner.as_bytes()),
                claim.as_ref().map(|claim| claim.lease_until.0),
                self.progress
            ])?;
        if inserted == 0 {
            return Err(Fault::Refused(format!("there is a run {} already", run.run)));
        }
        Ok(())
    }
}

impl Write for Admit {
    type Answer = Admitted;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Admitted, Fault> {
        let Admission {
            run,
            agent,
            reserve,
            idempotency,
            claim,
            at,
            queued,
            ..
        } = &self.admission;
        if let Some(claim) = idempotency
            && let Some((fingerprint, made)) = read::idempotent(tx.connection, run.tenant, &claim.key, *at)?
        {
            return Ok(if fingerprint == claim.fingerprint {
                Admitted::Replayed(made)
            } else {
                Admitted::KeyReused
            });
        }
        let mut books = tx.scopes.books_of(tx.connection, run.tenant, agent)?;
        if let Some(scope) = judge::without_room(&books, *reserve) {
            return Ok(Admitted::OverBudget { scope });
        }
        self.insert_run(tx.connection)?;
        if faults::at_blocking(Point::AdmitHalf).is_some() {
            return Err(Fault::pretended());
        }
        events::insert(tx.connection, *run, 1, std::iter::once(queued), *at)?;
        for open in &mut books {
            open.books.reserved = open.books.reserved.saturating_add(*reserve);
        }
        budget::keep(tx.connection, run.tenant, &books)?;
        if let Some(claim) = idempotency {
            keep_key(tx.connection, *run, claim, at.0)?;
            if faults::at_blocking(Point::KeyKept).is_some() {
                return Err(Fault::pretended());
            }
        }
        Ok(Admitted::Created {
            epoch: claim.is_some().then_some(Epoch(1)),
        })
    }

    fn announce(&self, answer: &Admitted, hub: &Hub) {
        match answer {
            Admitted::Created { .. } => hub.committed(self.admission.run, Seq(1), false),
            Admitted::Replayed(_) | Admitted::KeyReused | Admitted::OverBudget { .. } => {}
        }
    }
}

fn keep_key(connection: &Connection, run: RunRef, claim: &IdempotencyClaim, now: i64) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "DELETE FROM idempotency_keys WHERE tenant_id = ?1 AND key IN
                 (SELECT key FROM idempotency_keys WHERE tenant_id = ?1 AND expires_at <= ?2 LIMIT ?3)",
        )?
        .execute(params![run.tenant.as_bytes(), now, CLEARED])?;
    connection
        .prepare_cached(
            "INSERT INTO idempotency_keys (tenant_id, key, fingerprint, run_id, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant_id, key) DO UPDATE
             SET fingerprint = excluded.fingerprint, run_id = excluded.run_id, expires_at = excluded.expires_at",
        )?
        .execute(params![
            run.tenant.as_bytes(),
            claim.key,
            claim.fingerprint.0,
            run.run.as_bytes(),
            claim.expires_at.0
        ])?;
    Ok(())
}
