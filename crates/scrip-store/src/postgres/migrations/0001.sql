-- All personal data is inside a sealed body. Clear columns are authenticated with the body and
-- exist because queries need them.
--
-- The tenant is the first column of every unique key, except the id of a 3DS session, and no number
-- comes from a sequence, so that distributed engines can run this schema too. Columns that are
-- compared or ordered by bytes have the collation "C".
--
-- The row-level security policies are at the end: a transaction reads and writes only rows of the
-- tenant that it has set.

CREATE TABLE system_keys (
    name    TEXT PRIMARY KEY,
    wrapped BYTEA NOT NULL
);

-- Incremented with every policy change, so that other nodes detect the change.
CREATE TABLE directory_state (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    version   BIGINT NOT NULL
);

INSERT INTO directory_state (singleton, version) VALUES (1, 0);

-- The clock watermark: a server does not start with an earlier clock.
CREATE TABLE clock_watermark (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    now       BIGINT NOT NULL,
    earliest  BIGINT NOT NULL,
    mac       BYTEA NOT NULL
);

-- The progress of an unfinished import. While the row exists, the vault cannot be served.
CREATE TABLE import_state (
    singleton     INTEGER PRIMARY KEY CHECK (singleton = 1),
    file_checksum BYTEA NOT NULL,
    portions      BIGINT NOT NULL,
    checksum      BYTEA NOT NULL
);

-- Every write to a tenant's rows or logs first updates this row, and so waits for the previous
-- write. The row also assigns the numbers of tokens.
CREATE TABLE tenant_locks (
    tenant            UUID NOT NULL,
    log               TEXT NOT NULL,
    last_token_number BIGINT NOT NULL,
    PRIMARY KEY (tenant, log)
) WITH (fillfactor = 50);

-- Policy is stored in clear, so every row has a MAC over all its columns. A tenant's row also has a
-- MAC over the MACs of its whole policy and a counter.
CREATE TABLE tenants (
    id             UUID PRIMARY KEY,
    name           TEXT NOT NULL,
    kind           TEXT NOT NULL,
    settings       TEXT NOT NULL,
    quotas         TEXT NOT NULL,
    created_by     UUID,
    created_at     BIGINT NOT NULL,
    modified_by    UUID,
    modified_at    BIGINT,
    -- When the keys of a deleted tenant are destroyed.
    deletes_at     BIGINT,
    mac            BYTEA NOT NULL,
    policy_counter BIGINT NOT NULL,
    policy_mac     BYTEA NOT NULL
);

CREATE TABLE tenant_keys (
    tenant  UUID NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    wrapped BYTEA NOT NULL,
    PRIMARY KEY (tenant, version)
);

CREATE TABLE permanent_keys (
    tenant  UUID PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    wrapped BYTEA NOT NULL
);

CREATE TABLE applications (
    tenant      UUID NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          UUID NOT NULL,
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    access      TEXT NOT NULL,
    created_by  UUID,
    created_at  BIGINT NOT NULL,
    modified_by UUID,
    modified_at BIGINT,
    mac         BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- A policy change checks, under the lock of the directory version, that digests are unique across
-- tenants.
CREATE TABLE api_keys (
    tenant      UUID NOT NULL,
    application UUID NOT NULL,
    id          UUID NOT NULL,
    digest      BYTEA NOT NULL,
    created_by  UUID,
    created_at  BIGINT NOT NULL,
    mac         BYTEA NOT NULL,
    PRIMARY KEY (tenant, application, id),
    FOREIGN KEY (tenant, application) REFERENCES applications (tenant, id) ON DELETE CASCADE
);

CREATE INDEX api_keys_by_digest ON api_keys (digest);

-- Deleted tenants with rows that are not purged yet. Their keys are destroyed, so the rows cannot
-- be decrypted.
CREATE TABLE deleted_tenants (
    id         UUID PRIMARY KEY,
    deleted_at BIGINT NOT NULL,
    mac        BYTEA NOT NULL
);

CREATE TABLE access_sessions (
    tenant        UUID NOT NULL,
    digest        BYTEA NOT NULL,
    nonce         BYTEA NOT NULL,
    application   UUID NOT NULL,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    authorized_by UUID,
    authorized_key UUID,
    authorized_at BIGINT,
    access        TEXT,
    mac           BYTEA NOT NULL,
    PRIMARY KEY (tenant, digest),
    UNIQUE (tenant, nonce)
);

CREATE INDEX access_sessions_by_digest ON access_sessions (digest);
CREATE INDEX access_sessions_by_expiry ON access_sessions (expires_at);

-- The number orders tokens with the same creation time; it increases within a tenant.
CREATE TABLE tokens (
    tenant      UUID NOT NULL,
    number      BIGINT NOT NULL,
    id          TEXT COLLATE "C" NOT NULL,
    type        TEXT NOT NULL,
    fingerprint BYTEA,
    -- Digests of the token's expressions, and whether they are trusted.
    expressions BYTEA NOT NULL,
    containers  TEXT NOT NULL,
    created_by  UUID NOT NULL,
    created_at  BIGINT NOT NULL,
    modified_by UUID,
    modified_at BIGINT,
    expires_at  BIGINT,
    revision    BIGINT NOT NULL,
    -- Concatenated digests of 16 bytes each.
    indexes     BYTEA NOT NULL,
    body        BYTEA NOT NULL,
    -- Lookup keys for deduplication, derived from other columns.
    duplicate_key      BYTEA,
    duplicate_read_key BYTEA,
    PRIMARY KEY (tenant, number),
    UNIQUE (tenant, id)
);

-- The latest expiry comes first, so a search for a duplicate never scans expired rows.
CREATE INDEX tokens_by_duplicate_key
    ON tokens (tenant, duplicate_key, (coalesce(expires_at, 9223372036854775807)) DESC, created_at, number)
    WHERE duplicate_key IS NOT NULL;
CREATE INDEX tokens_by_duplicate_read_key
    ON tokens (tenant, duplicate_read_key, (coalesce(expires_at, 9223372036854775807)) DESC, created_at, number)
    WHERE duplicate_read_key IS NOT NULL;

-- A sealed body is random: compression would cost time and save nothing.
ALTER TABLE tokens ALTER COLUMN body SET STORAGE EXTERNAL;

-- Partial: a token that never expires has no entry.
CREATE INDEX tokens_by_expiry ON tokens (expires_at, tenant) WHERE expires_at IS NOT NULL;

-- The token index: an entry per facet (type, fingerprint, index digests) and container, in list
-- order.
CREATE TABLE token_index (
    tenant     UUID NOT NULL,
    facet      BYTEA NOT NULL,
    container  TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    token      BIGINT NOT NULL,
    PRIMARY KEY (tenant, facet, container, created_at, token)
);

-- Unlogged: CVCs are not in the WAL, not on a standby, and lost after a crash. See
-- docs/decisions/0034-postgresql.md.
CREATE UNLOGGED TABLE cvcs (
    tenant     UUID NOT NULL,
    token      BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    sealed     BYTEA NOT NULL,
    PRIMARY KEY (tenant, token),
    FOREIGN KEY (tenant, token) REFERENCES tokens (tenant, number) ON DELETE CASCADE
);

CREATE INDEX cvcs_by_expiry ON cvcs (expires_at);

-- Tokens per type and created tokens per month. Updated once per transaction.
CREATE TABLE usage_types (
    tenant          UUID NOT NULL,
    type            TEXT COLLATE "C" NOT NULL,
    count           BIGINT NOT NULL,
    last_created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, type)
) WITH (fillfactor = 50);

CREATE TABLE usage_months (
    tenant  UUID NOT NULL,
    month   BIGINT NOT NULL,
    created BIGINT NOT NULL,
    PRIMARY KEY (tenant, month)
) WITH (fillfactor = 50);

-- Tokens of earlier months that were used in a month, and their number. The list exists only during
-- the month.
CREATE TABLE active_tokens (
    tenant UUID NOT NULL,
    month  BIGINT NOT NULL,
    token  TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, month, token)
);

CREATE INDEX active_tokens_by_month ON active_tokens (month);

CREATE TABLE active_months (
    tenant UUID NOT NULL,
    month  BIGINT NOT NULL,
    active BIGINT NOT NULL,
    PRIMARY KEY (tenant, month)
) WITH (fillfactor = 50);

-- Data that can be converted to a token. It is found by its id only, and expires.
CREATE TABLE token_intents (
    tenant      UUID NOT NULL,
    id          UUID NOT NULL,
    type        TEXT NOT NULL,
    fingerprint BYTEA,
    containers  TEXT NOT NULL,
    created_by  UUID NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    body        BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

ALTER TABLE token_intents ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX token_intents_by_expiry ON token_intents (expires_at, tenant);

CREATE UNLOGGED TABLE intent_cvcs (
    tenant     UUID NOT NULL,
    intent     UUID NOT NULL,
    expires_at BIGINT NOT NULL,
    sealed     BYTEA NOT NULL,
    PRIMARY KEY (tenant, intent),
    FOREIGN KEY (tenant, intent) REFERENCES token_intents (tenant, id) ON DELETE CASCADE
);

CREATE INDEX intent_cvcs_by_expiry ON intent_cvcs (expires_at);

-- 3DS sessions. A directory server that posts a result names no tenant, so sessions are found by
-- their id alone, which is unique across tenants.
CREATE TABLE threeds_sessions (
    tenant     UUID NOT NULL,
    id         UUID NOT NULL,
    created_by UUID NOT NULL,
    created_at BIGINT NOT NULL,
    deletes_at BIGINT,
    revision   BIGINT NOT NULL,
    -- The card: a token, or an intent that may be converted to one.
    token      TEXT,
    intent     UUID,
    -- Written by the conversion, with a separate MAC.
    converted_containers TEXT,
    converted_number_version UUID,
    converted_mac BYTEA,
    body       BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX threeds_sessions_by_id ON threeds_sessions (id);
CREATE INDEX threeds_sessions_by_token ON threeds_sessions (tenant, token) WHERE token IS NOT NULL;
CREATE INDEX threeds_sessions_by_intent ON threeds_sessions (tenant, intent) WHERE intent IS NOT NULL;
CREATE INDEX threeds_sessions_by_expiry ON threeds_sessions (deletes_at, tenant) WHERE deletes_at IS NOT NULL;

-- Events of 3DS sessions, in commit order.
CREATE TABLE threeds_events (
    tenant      UUID NOT NULL,
    seq         BIGINT NOT NULL,
    id          UUID NOT NULL,
    occurred_at BIGINT NOT NULL,
    body        BYTEA NOT NULL,
    PRIMARY KEY (tenant, seq)
);

CREATE INDEX threeds_events_by_seq ON threeds_events (seq);
CREATE INDEX threeds_events_by_time ON threeds_events (occurred_at);

-- The number of the last event. A consumer continues after the last number that it read. So a
-- number is never reused, and a lower number must not become visible after a higher one: the row is
-- locked until the commit.
CREATE TABLE threeds_event_state (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    last_seq  BIGINT NOT NULL
) WITH (fillfactor = 50);

INSERT INTO threeds_event_state (singleton, last_seq) VALUES (1, 0);

-- Card numbers that callers without the right to reveal had evaluated, and searches without a
-- result. Bucket and number are keyed digests; the first byte of a bucket is its kind.
CREATE TABLE guesses (
    tenant        UUID NOT NULL,
    bucket        BYTEA NOT NULL,
    number_digest BYTEA NOT NULL,
    counted_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant, bucket, number_digest)
);

CREATE INDEX guesses_by_expiry ON guesses (expires_at);

CREATE TABLE idempotency_records (
    tenant     UUID NOT NULL,
    digest     BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    head       BYTEA NOT NULL,
    PRIMARY KEY (tenant, digest)
);

CREATE INDEX idempotency_records_by_time ON idempotency_records (created_at);

-- The token data of a stored response. Any deletion of a token also deletes its data here.
CREATE TABLE response_token_data (
    tenant      UUID NOT NULL,
    digest      BYTEA NOT NULL,
    write_index BIGINT NOT NULL,
    token       BIGINT NOT NULL,
    sealed      BYTEA NOT NULL,
    PRIMARY KEY (tenant, digest, write_index),
    FOREIGN KEY (tenant, digest) REFERENCES idempotency_records (tenant, digest) ON DELETE CASCADE,
    FOREIGN KEY (tenant, token) REFERENCES tokens (tenant, number) ON DELETE CASCADE
);

CREATE INDEX response_token_data_by_token ON response_token_data (tenant, token);

-- Audit log and read log: one hash chain per tenant and log. Sequence numbers start at 1 without
-- gaps; a link is a MAC over every column and the previous link.
CREATE TABLE log_records (
    tenant     UUID NOT NULL,
    log        TEXT NOT NULL,
    sequence   BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    actor_kind TEXT NOT NULL,
    actor      UUID,
    operation  TEXT NOT NULL,
    entity     TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    trace      TEXT NOT NULL,
    address    TEXT NOT NULL,
    api_key    UUID,
    os_user    TEXT,
    repeats    BIGINT,
    link       BYTEA NOT NULL,
    PRIMARY KEY (tenant, log, sequence)
);

-- The head of each chain. It stays when the tenant is deleted or all records are pruned.
CREATE TABLE chain_heads (
    tenant            UUID NOT NULL,
    log               TEXT NOT NULL,
    sequence          BIGINT NOT NULL,
    at                BIGINT NOT NULL,
    link              BYTEA NOT NULL,
    -- Retention of a deleted tenant's records; only the audit log has it, for both logs.
    retention_seconds BIGINT,
    mac               BYTEA NOT NULL,
    PRIMARY KEY (tenant, log)
) WITH (fillfactor = 50);

-- The last pruned record of each chain.
CREATE TABLE chain_checkpoints (
    tenant   UUID NOT NULL,
    log      TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    link     BYTEA NOT NULL,
    at       BIGINT NOT NULL,
    mac      BYTEA NOT NULL,
    PRIMARY KEY (tenant, log)
);

-- Row-level security: the second barrier between tenants (postgres/engine/scope.rs). It applies to
-- the owner of the tables too, but not to a superuser and not to cascading deletes. The values are
-- compared as text, because the setting can be empty or mean all tenants, and neither is a UUID.

ALTER TABLE tenant_locks ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON tenant_locks USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON tenants USING (id::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE tenant_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON tenant_keys USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE permanent_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON permanent_keys USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE applications ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON applications USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON api_keys USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE deleted_tenants ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON deleted_tenants USING (id::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE access_sessions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON access_sessions USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE tokens ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON tokens USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE token_index ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON token_index USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE cvcs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON cvcs USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE usage_types ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON usage_types USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE usage_months ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON usage_months USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE active_tokens ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON active_tokens USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE active_months ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON active_months USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE token_intents ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON token_intents USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE intent_cvcs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON intent_cvcs USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE threeds_sessions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON threeds_sessions USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE threeds_events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON threeds_events USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE guesses ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON guesses USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE idempotency_records ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON idempotency_records USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE response_token_data ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON response_token_data USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE log_records ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON log_records USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE chain_heads ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON chain_heads USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

ALTER TABLE chain_checkpoints ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON chain_checkpoints USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');
