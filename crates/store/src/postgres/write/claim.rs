//! Claims: runs that are queued, due, or whose owner is dead, oldest first.

use super::{
    super::{
        fault::Fault,
        lane::{Commit, Write},
        read,
    },
    query,
};
use crate::code;
use deadpool_postgres::ClientWrapper;
use portolan_core::{Fut, ids::Epoch};
use portolan_journal::{ClaimRequest, Claimed, DeadOwners, RunRef};

/// A worker that looks for runs.
pub(in super::super) struct TakeRuns(pub(in super::super) ClaimRequest);

/// Whether a run has a reason to be driven.
macro_rules! awake {
    () => {
        "(r.status < 2 OR r.cancel_requested_at IS NOT NULL OR r.wake_at <= $3)"
    };
}

/// Looks without locks, each tenant in turn so that an index answers in order; then locks the oldest that nobody else is
/// about to take, and looks again at what it has locked.
macro_rules! take {
    ($dead:literal) => {
        concat!(
            "
WITH RECURSIVE tenants AS (
    (SELECT tenant_id FROM runs WHERE owner IS NULL AND status < 2 ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT r.tenant_id FROM runs AS r WHERE r.owner IS NULL AND r.status < 2 AND r.tenant_id > t.tenant_id
        ORDER BY r.tenant_id LIMIT 1)
    FROM tenants AS t WHERE t.tenant_id IS NOT NULL
), waiters AS (
    (SELECT tenant_id FROM runs WHERE owner IS NULL AND status = 2 ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT r.tenant_id FROM runs AS r WHERE r.owner IS NULL AND r.status = 2 AND r.tenant_id > t.tenant_id
        ORDER BY r.tenant_id LIMIT 1)
    FROM waiters AS t WHERE t.tenant_id IS NOT NULL
), candidates AS MATERIALIZED (
    SELECT f.tenant_id, f.run_id FROM tenants AS t CROSS JOIN LATERAL (
        SELECT r.tenant_id, r.run_id FROM runs AS r
        WHERE r.owner IS NULL AND r.status < 2 AND r.tenant_id = t.tenant_id ORDER BY r.run_id LIMIT $5) AS f
    UNION
    SELECT f.tenant_id, f.run_id FROM waiters AS t CROSS JOIN LATERAL (
        SELECT r.tenant_id, r.run_id FROM runs AS r
        WHERE r.owner IS NULL AND r.status = 2 AND r.tenant_id = t.tenant_id AND r.wake_at <= $3
        ORDER BY r.run_id LIMIT $5) AS f
    UNION
    (SELECT r.tenant_id, r.run_id FROM runs AS r
        WHERE r.status = 2 AND r.cancel_requested_at IS NOT NULL AND r.owner IS NULL ORDER BY r.run_id LIMIT $5)
    UNION
    (SELECT r.tenant_id, r.run_id FROM runs AS r WHERE r.owner IS NOT NULL AND ",
            $dead,
            " AND ",
            awake!(),
            " ORDER BY r.run_id LIMIT $5)
), locked AS MATERIALIZED (
    SELECT r.tenant_id, r.run_id FROM runs AS r JOIN candidates AS c ON c.tenant_id = r.tenant_id AND c.run_id = r.run_id
    WHERE r.status < 3 AND (r.owner IS NULL OR ",
            $dead,
            ") AND ",
            awake!(),
            " ORDER BY r.run_id, r.tenant_id LIMIT $4 FOR NO KEY UPDATE OF r SKIP LOCKED
)
UPDATE runs AS r SET epoch = r.epoch + 1, owner = $1, lease_until = $2,
    wake_at = CASE WHEN r.status = 2 THEN r.wake_at END,
    redrives = r.redrives + CASE WHEN r.epoch > 0 AND (r.status <> 2 OR r.owner IS NOT NULL) THEN 1 ELSE 0 END
FROM locked AS l WHERE r.tenant_id = l.tenant_id AND r.run_id = l.run_id
RETURNING r.tenant_id, r.run_id, r.epoch, r.redrives"
        )
    };
}

const LEASE_EXPIRED: &str = take!("(r.lease_until IS NULL OR r.lease_until <= $3)");
const ALL_OTHERS: &str = take!("(r.owner <> $1 OR r.lease_until IS NULL OR r.lease_until <= $3)");

/// How many more runs are looked at than taken: others may be about to take the oldest.
const AHEAD: i64 = 4;

impl Write for TakeRuns {
    type Answer = Vec<Claimed>;
    const COMMIT: Commit = Commit::Itself;

    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<Vec<Claimed>, Fault>> {
        Box::pin(async move {
            let ClaimRequest {
                claim,
                now,
                max,
                dead,
            } = &self.0;
            let sql = match dead {
                DeadOwners::LeaseExpired => LEASE_EXPIRED,
                DeadOwners::AllOthers => ALL_OTHERS,
            };
            let owner = claim.owner.as_bytes().as_slice();
            let max = i64::from(*max);
            let looked_at = max.saturating_mul(AHEAD);
            let rows = query(
                client,
                sql,
                &[&owner, &claim.lease_until.0, &now.0, &max, &looked_at],
            )
            .await?;
            let mut claimed: Vec<Claimed> = Vec::with_capacity(rows.len());
            for row in &rows {
                claimed.push(Claimed {
                    run: RunRef {
                        tenant: read::tenant(row, 0)?,
                        run: read::run_id(row, 1)?,
                    },
                    epoch: Epoch(code::count(read::get(row, 2)?)?),
                    redrives: code::small(read::get(row, 3)?)?,
                });
            }
            claimed.sort_unstable_by_key(|claimed| claimed.run.run);
            Ok(claimed)
        })
    }
}
