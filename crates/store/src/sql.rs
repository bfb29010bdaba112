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

/// All events of a run, with the gaps that they have: an audit wants to see them.
pub(crate) const ALL_EVENTS: &str = "SELECT seq, kind, step_id, attempt, payload, at FROM journal_events
    WHERE tenant_id = $1 AND run_id = $2 ORDER BY seq";

/// Runs of all tenants strictly after one.
pub(crate) const ALL_RUNS: &str = "SELECT tenant_id, run_id FROM runs WHERE (tenant_id, run_id) > ($1, $2)
    ORDER BY tenant_id, run_id LIMIT $3";

/// The commands of a run, as they are counted and as they are there.
pub(crate) const INBOX_COUNTS: &str = "SELECT inbox_count,
        (SELECT count(*) FROM inbox AS i WHERE i.tenant_id = r.tenant_id AND i.run_id = r.run_id)
    FROM runs AS r WHERE tenant_id = $1 AND run_id = $2";

/// What is billed for a run.
pub(crate) const USAGE: &str =
    "SELECT day, status, model_calls, tool_calls, tokens_in, tokens_out, tokens_cached,
        tokens_reasoning, cost, cost_is_estimate, imported
    FROM usage WHERE tenant_id = $1 AND run_id = $2";

/// The scopes that have books, each with what its runs hold.
pub(crate) const SCOPES: &str =
    "SELECT s.tenant_id, s.agent, (SELECT CAST(coalesce(sum(r.reserved), 0) AS bigint) FROM runs AS r
        WHERE r.tenant_id = s.tenant_id AND r.status < 3 AND (s.agent = '' OR r.agent = s.agent))
    FROM budget_scopes AS s";

/// Tables whose rows belong to a run.
pub(crate) const OF_RUNS: [&str; 4] = ["journal_events", "usage", "inbox", "idempotency_keys"];

/// Runs that rows of a table name and that are not there.
pub(crate) fn strays(table: &'static str) -> String {
    format!(
        "SELECT DISTINCT t.tenant_id, t.run_id FROM {table} AS t WHERE NOT EXISTS
            (SELECT 1 FROM runs AS r WHERE r.tenant_id = t.tenant_id AND r.run_id = t.run_id) LIMIT $1"
    )
}

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
            ALL_EVENTS,
            ALL_RUNS,
            INBOX_COUNTS,
            USAGE,
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
