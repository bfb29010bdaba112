-- Ids are their sixteen bytes. Times are microseconds since the Unix epoch, UTC. Money is in nano-dollars. Text that is compared
-- or ordered is compared byte by byte, as on SQLite. What a model or a tool produced is kept as bytes: jsonb would refuse some of it.
-- `tenant_id` comes first in every key and every index; the exceptions are the look-up of an API key by its hash, which is
-- what finds the tenant, and what belongs to the whole server.

CREATE TABLE tenants (
    tenant_id  bytea  NOT NULL PRIMARY KEY,
    name       text   NOT NULL,
    created_at bigint NOT NULL
);

-- Who makes the first tenant: of replicas that start together, the one whose row this is.
CREATE TABLE first_tenant (
    id        bigint NOT NULL PRIMARY KEY CHECK (id = 1),
    tenant_id bytea  NOT NULL
);

-- What all replicas must have in common and none may guess.
CREATE TABLE server_secrets (
    name   text COLLATE "C" NOT NULL PRIMARY KEY,
    secret bytea            NOT NULL
);

CREATE TABLE api_keys (
    tenant_id   bytea  NOT NULL REFERENCES tenants (tenant_id),
    key_id      bytea  NOT NULL,
    name        text   NOT NULL,
    scopes      text   NOT NULL, -- JSON array
    secret_hash bytea  NOT NULL,
    created_at  bigint NOT NULL,
    expires_at  bigint,
    PRIMARY KEY (tenant_id, key_id)
);

CREATE UNIQUE INDEX api_keys_by_hash ON api_keys (secret_hash);

CREATE TABLE agents (
    tenant_id bytea            NOT NULL,
    agent_id  bytea            NOT NULL,
    name      text COLLATE "C" NOT NULL,
    newest    bigint           NOT NULL,
    retired   bigint           NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent_id)
);

CREATE UNIQUE INDEX agents_by_name ON agents (tenant_id, name);

CREATE TABLE agent_versions (
    tenant_id  bytea  NOT NULL,
    agent_id   bytea  NOT NULL,
    version    bigint NOT NULL,
    definition text   NOT NULL, -- JSON
    created_at bigint NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, version),
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, agent_id)
);

-- `status`: 0 queued, 1 running, 2 waiting, 3 succeeded, 4 failed, 5 cancelled.
-- `status`, `progress` and `next_seq` are the fold of the journal; the rest stands beside it.
CREATE TABLE runs (
    tenant_id           bytea            NOT NULL,
    run_id              bytea            NOT NULL,
    agent               text COLLATE "C" NOT NULL,
    agent_version       bigint           NOT NULL,
    tags                text             NOT NULL, -- JSON array
    created_at          bigint           NOT NULL,
    status              bigint           NOT NULL,
    epoch               bigint           NOT NULL,
    next_seq            bigint           NOT NULL,
    redrives            bigint           NOT NULL DEFAULT 0,
    active_ms           bigint           NOT NULL DEFAULT 0,
    reserved            bigint           NOT NULL DEFAULT 0,
    settled             bigint           NOT NULL DEFAULT 0,
    inbox_count         bigint           NOT NULL DEFAULT 0,
    next_inbox          bigint           NOT NULL DEFAULT 1,
    owner               bytea,
    lease_until         bigint,
    wake_at             bigint,
    cancel_requested_at bigint,
    progress            text             NOT NULL, -- JSON
    PRIMARY KEY (tenant_id, run_id)
) WITH (fillfactor = 70);

CREATE INDEX runs_by_status ON runs (tenant_id, status, run_id);
CREATE INDEX runs_by_agent ON runs (tenant_id, agent, run_id);
-- What a claim looks at. Each holds only the runs that it is about, so that ended runs cost nothing. None holds the lease: it
-- moves every few seconds, and a row whose indexed columns stay is updated in place.
CREATE INDEX runs_free ON runs (tenant_id, run_id) WHERE owner IS NULL AND status < 2;
CREATE INDEX runs_due ON runs (tenant_id, wake_at, run_id) WHERE owner IS NULL AND status = 2;
CREATE INDEX runs_cancelled ON runs (tenant_id, run_id) WHERE status = 2 AND cancel_requested_at IS NOT NULL;
CREATE INDEX runs_owned ON runs (tenant_id, run_id) WHERE owner IS NOT NULL;

-- `kind` is the name of a kind, whatever bytes that may have. `step_id` is twice the number of the step, plus one for a tool. Rows
-- are never updated and never deleted.
CREATE TABLE journal_events (
    tenant_id bytea  NOT NULL,
    run_id    bytea  NOT NULL,
    seq       bigint NOT NULL,
    kind      bytea  NOT NULL,
    step_id   bigint,
    attempt   bigint,
    payload   bytea  NOT NULL,
    at        bigint NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq)
);

CREATE TABLE inbox (
    tenant_id bytea  NOT NULL,
    run_id    bytea  NOT NULL,
    inbox_id  bigint NOT NULL,
    at        bigint NOT NULL,
    command   text   NOT NULL, -- JSON
    PRIMARY KEY (tenant_id, run_id, inbox_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id)
);

CREATE TABLE idempotency_keys (
    tenant_id   bytea            NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint bytea            NOT NULL,
    run_id      bytea            NOT NULL,
    expires_at  bigint           NOT NULL,
    PRIMARY KEY (tenant_id, key)
);

CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (tenant_id, expires_at);

-- The empty agent is the whole tenant.
CREATE TABLE budget_scopes (
    tenant_id bytea            NOT NULL,
    agent     text COLLATE "C" NOT NULL,
    bound     bigint           NOT NULL,
    settled   bigint           NOT NULL DEFAULT 0,
    reserved  bigint           NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent)
);

-- One row per ended run, written by the transaction that ends it. `day` is the UTC day of its admission, in days since the
-- Unix epoch. `cost` is null where the price of a call is unknown.
CREATE TABLE usage (
    tenant_id        bytea            NOT NULL,
    run_id           bytea            NOT NULL,
    day              bigint           NOT NULL,
    agent            text COLLATE "C" NOT NULL,
    agent_version    bigint           NOT NULL,
    model            text,
    status           bigint           NOT NULL,
    model_calls      bigint           NOT NULL,
    tool_calls       bigint           NOT NULL,
    tokens_in        bigint           NOT NULL,
    tokens_out       bigint           NOT NULL,
    tokens_cached    bigint           NOT NULL,
    tokens_reasoning bigint           NOT NULL,
    cost             bigint,
    cost_is_estimate bigint           NOT NULL,
    PRIMARY KEY (tenant_id, run_id)
);

CREATE INDEX usage_by_day ON usage (tenant_id, day);

-- The journal as the API prints it.
CREATE VIEW journal AS
SELECT
    'ten_' || encode(tenant_id, 'hex') AS tenant_id,
    'run_' || encode(run_id, 'hex') AS run_id,
    seq,
    encode(kind, 'escape') AS kind,
    CASE step_id % 2 WHEN 0 THEN 'llm-' WHEN 1 THEN 'tool-' END || (step_id / 2) AS step_id,
    attempt,
    payload,
    at
FROM journal_events;
