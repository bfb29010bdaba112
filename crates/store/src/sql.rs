//! SQL text that both databases read alike.
//!
//! The dialects agree on the queries, once parameters are written `$n` and appear in the order of their numbers: SQLite takes
//! `$1` for a name and gives it the next free place. Writes differ where it matters, an upsert inside a statement here, a row
//! lock there, so each store keeps its own; what they decide is shared in [`crate::judge`].

/// The columns of a run, in the order in which both stores read them.
macro_rules! run_columns {
    () => {
        "tenant_id, run_id, agent, agent_version, tags, created_at, status, epoch, next_seq, redrives,
    active_ms, reserved, settled, owner, lease_until, wake_at, cancel_requested_at, progress"
    };
}

macro_rules! agent_columns {
    () => {
        "v.agent_id, v.version, v.definition, v.created_at, a.retired
    FROM agents AS a JOIN agent_versions AS v ON v.tenant_id = a.tenant_id AND v.agent_id = a.agent_id"
    };
}

/// Events strictly after a place.
pub(crate) const EVENTS: &str = "SELECT seq, kind, step_id, attempt, payload, at FROM journal_events
    WHERE tenant_id = $1 AND run_id = $2 AND seq > $3 ORDER BY seq LIMIT $4";

/// Where a list of runs begins.
pub(crate) const RUNS: &str = concat!("SELECT ", run_columns!(), " FROM runs WHERE tenant_id = $1");

/// The row of a run.
pub(crate) const RUN: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM runs WHERE tenant_id = $1 AND run_id = $2"
);

/// What an idempotency key made while it is kept.
pub(crate) const IDEMPOTENT: &str = "SELECT fingerprint, run_id FROM idempotency_keys
    WHERE tenant_id = $1 AND key = $2 AND expires_at > $3";

/// The commands that wait for the owner of a run.
pub(crate) const INBOX: &str = "SELECT inbox_id, at, command FROM inbox
    WHERE tenant_id = $1 AND run_id = $2 ORDER BY inbox_id";

/// A version of an agent, or the newest.
pub(crate) const AGENT: &str = concat!(
    "SELECT ",
    agent_columns!(),
    " WHERE a.tenant_id = $1 AND a.name = $2 AND v.version = coalesce($3, a.newest)"
);

/// The newest versions of the agents that are not retired, by name.
pub(crate) const AGENTS: &str = concat!(
    "SELECT ",
    agent_columns!(),
    " AND v.version = a.newest WHERE a.tenant_id = $1 AND a.name > $2 AND a.retired = 0 ORDER BY a.name LIMIT $3"
);

/// The key with a hash.
pub(crate) const KEY_BY_HASH: &str =
    "SELECT key_id, tenant_id, name, scopes, secret_hash, created_at, expires_at
    FROM api_keys WHERE secret_hash = $1";

/// The books of a scope.
pub(crate) const BOOKS: &str =
    "SELECT bound, settled, reserved FROM budget_scopes WHERE tenant_id = $1 AND agent = $2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_appear_in_the_order_of_their_numbers() {
        for sql in [
            EVENTS,
            RUNS,
            RUN,
            IDEMPOTENT,
            INBOX,
            AGENT,
            AGENTS,
            KEY_BY_HASH,
            BOOKS,
        ] {
            let numbers: Vec<&str> = sql
                .split('$')
                .skip(1)
                .map(|rest| {
                    rest.split(|c: char| !c.is_ascii_digit())
                        .next()
                        .unwrap_or_default()
                })
                .collect();
            let expected: Vec<String> = (1..=numbers.len()).map(|number| number.to_string()).collect();
            assert_eq!(numbers, expected, "{sql}");
        }
    }
}
