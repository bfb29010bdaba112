-- Ids are their sixteen bytes. Times are microseconds since the Unix epoch, UTC. Money is in nano-dollars.
-- `tenant_id` comes first in every key and every index; the one exception is the look-up of an API key by its hash, which
-- is what finds the tenant.
PRAGMA application_id = 1347375700; -- "PORT"

CREATE TABLE tenants (
    tenant_id  BLOB    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    tenant_id   BLOB    NOT NULL REFERENCES tenants (tenant_id),
    key_id      BLOB    NOT NULL,
    name        TEXT    NOT NULL,
    scopes      TEXT    NOT NULL, -- JSON array
    secret_hash BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    PRIMARY KEY (tenant_id, key_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX api_keys_by_hash ON api_keys (secret_hash);

CREATE TABLE agents (
    tenant_id BLOB    NOT NULL,
    agent_id  BLOB    NOT NULL,
    name      TEXT    NOT NULL,
    newest    INTEGER NOT NULL,
    retired   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX agents_by_name ON agents (tenant_id, name);

CREATE TABLE agent_versions (
    tenant_id  BLOB    NOT NULL,
    agent_id   BLOB    NOT NULL,
    version    INTEGER NOT NULL,
    definition TEXT    NOT NULL, -- JSON
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, version),
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, agent_id)
) STRICT, WITHOUT ROWID;

-- `status`: 0 queued, 1 running, 2 waiting, 3 succeeded, 4 failed, 5 cancelled.
-- `status`, `progress` and `next_seq` are the fold of the journal; the rest stands beside it.
CREATE TABLE runs (
    tenant_id           BLOB    NOT NULL,
    run_id              BLOB    NOT NULL,
    agent               TEXT    NOT NULL,
    agent_version       INTEGER NOT NULL,
    tags                TEXT    NOT NULL, -- JSON array
    created_at          INTEGER NOT NULL,
    status              INTEGER NOT NULL,
    epoch               INTEGER NOT NULL,
    next_seq            INTEGER NOT NULL,
    redrives            INTEGER NOT NULL DEFAULT 0,
    active_ms           INTEGER NOT NULL DEFAULT 0,
    reserved            INTEGER NOT NULL DEFAULT 0,
    settled             INTEGER NOT NULL DEFAULT 0,
    inbox_count         INTEGER NOT NULL DEFAULT 0,
    next_inbox          INTEGER NOT NULL DEFAULT 1,
    owner               BLOB,
    lease_until         INTEGER,
    wake_at             INTEGER,
    cancel_requested_at INTEGER,
    progress            TEXT    NOT NULL, -- JSON
    PRIMARY KEY (tenant_id, run_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_status ON runs (tenant_id, status, run_id);
CREATE INDEX runs_by_agent ON runs (tenant_id, agent, run_id);
-- What a claim looks at. Each holds only the runs that it is about, so that ended runs cost nothing.
CREATE INDEX runs_free ON runs (tenant_id, run_id) WHERE owner IS NULL AND status < 2;
CREATE INDEX runs_due ON runs (tenant_id, wake_at, run_id) WHERE owner IS NULL AND status = 2;
CREATE INDEX runs_cancelled ON runs (tenant_id, run_id) WHERE status = 2 AND cancel_requested_at IS NOT NULL;
CREATE INDEX runs_owned ON runs (tenant_id, run_id, owner, lease_until) WHERE owner IS NOT NULL;

-- A table with a rowid: in one without, each payload of a kilobyte takes a page of its own.
-- `kind` is a code of `event_kinds`, or the name of a kind that has none. `step_id` is twice the number of the step, plus
-- one for a tool. Rows are never updated and never deleted.
CREATE TABLE journal_events (
    tenant_id BLOB    NOT NULL,
    run_id    BLOB    NOT NULL,
    seq       INTEGER NOT NULL,
    kind      ANY     NOT NULL,
    step_id   INTEGER,
    attempt   INTEGER,
    payload   BLOB    NOT NULL,
    at        INTEGER NOT NULL,
    UNIQUE (tenant_id, run_id, seq)
) STRICT;

CREATE TABLE event_kinds (
    code INTEGER PRIMARY KEY,
    name TEXT NOT NULL
) STRICT;

INSERT INTO event_kinds (code, name) VALUES
    (1, 'run_queued'),
    (2, 'run_started'),
    (3, 'run_recovered'),
    (4, 'run_waiting'),
    (5, 'run_resumed'),
    (6, 'run_cancel_requested'),
    (7, 'step_started'),
    (8, 'step_completed'),
    (9, 'step_failed'),
    (10, 'step_ambiguous'),
    (11, 'result_rejected'),
    (12, 'artifact_created'),
    (13, 'artifact_modified'),
    (14, 'artifact_deleted'),
    (15, 'run_succeeded'),
    (16, 'run_failed'),
    (17, 'run_cancelled');

-- The journal as the API prints it.
CREATE VIEW journal AS
SELECT
    'ten_' || lower(hex(e.tenant_id)) AS tenant_id,
    'run_' || lower(hex(e.run_id)) AS run_id,
    e.seq AS seq,
    coalesce(k.name, e.kind) AS kind,
    CASE e.step_id % 2 WHEN 0 THEN 'llm-' WHEN 1 THEN 'tool-' END || (e.step_id / 2) AS step_id,
    e.attempt AS attempt,
    CAST(e.payload AS TEXT) AS payload,
    e.at AS at
FROM journal_events AS e LEFT JOIN event_kinds AS k ON k.code = e.kind;

CREATE TABLE inbox (
    tenant_id BLOB    NOT NULL,
    run_id    BLOB    NOT NULL,
    inbox_id  INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    command   TEXT    NOT NULL, -- JSON
    PRIMARY KEY (tenant_id, run_id, inbox_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    tenant_id   BLOB    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    run_id      BLOB    NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (tenant_id, expires_at);

-- The empty agent is the whole tenant.
CREATE TABLE budget_scopes (
    tenant_id BLOB    NOT NULL,
    agent     TEXT    NOT NULL,
    bound     INTEGER NOT NULL,
    settled   INTEGER NOT NULL DEFAULT 0,
    reserved  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent)
) STRICT, WITHOUT ROWID;

-- One row per ended run, written by the transaction that ends it. `day` is the UTC day of its admission, in days since the
-- Unix epoch. `cost` is null where the price of a call is unknown.
CREATE TABLE usage (
    tenant_id        BLOB    NOT NULL,
    run_id           BLOB    NOT NULL,
    day              INTEGER NOT NULL,
    agent            TEXT    NOT NULL,
    agent_version    INTEGER NOT NULL,
    model            TEXT,
    status           INTEGER NOT NULL,
    model_calls      INTEGER NOT NULL,
    tool_calls       INTEGER NOT NULL,
    tokens_in        INTEGER NOT NULL,
    tokens_out       INTEGER NOT NULL,
    tokens_cached    INTEGER NOT NULL,
    tokens_reasoning INTEGER NOT NULL,
    cost             INTEGER,
    cost_is_estimate INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, run_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_by_day ON usage (tenant_id, day);

-- Written after a commit whose outcome was unknown: a commit that follows settles it.
CREATE TABLE barrier (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    raised INTEGER NOT NULL
) STRICT;

INSERT INTO barrier (id, raised) VALUES (1, 0);
