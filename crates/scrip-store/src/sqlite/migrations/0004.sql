-- All personal data is inside a sealed body. Clear columns are authenticated with the body and
-- exist because queries need them.

CREATE TABLE system_keys (
    name    TEXT NOT NULL PRIMARY KEY,
    wrapped BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Incremented with every policy change, so that other processes detect the change.
CREATE TABLE directory_state (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    version   INTEGER NOT NULL
) STRICT;

INSERT INTO directory_state (singleton, version) VALUES (1, 0);

-- The clock watermark: a server does not start with an earlier clock.
CREATE TABLE clock_watermark (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    now       INTEGER NOT NULL,
    earliest  INTEGER NOT NULL,
    mac       BLOB NOT NULL
) STRICT;

-- Policy is stored in clear, so every row has a MAC over all its columns. A tenant's row also has a
-- MAC over the MACs of its whole policy and a counter.
CREATE TABLE tenants (
    id             BLOB NOT NULL PRIMARY KEY,
    name           TEXT NOT NULL,
    kind           TEXT NOT NULL,
    settings       TEXT NOT NULL,
    quotas         TEXT NOT NULL,
    created_by     BLOB,
    created_at     INTEGER NOT NULL,
    modified_by    BLOB,
    modified_at    INTEGER,
    -- When the keys of a deleted tenant are destroyed.
    deletes_at     INTEGER,
    mac            BLOB NOT NULL,
    policy_counter INTEGER NOT NULL,
    policy_mac     BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys are destroyed by overwriting them, so only one copy of each may exist. SQLite moves rows
-- between pages when other rows change, and leaves the old bytes in place, even with
-- `secure_delete`. It never moves the part of a long row that does not fit on the row's page: that
-- part is on overflow pages, which are overwritten when they are freed. With pages of 4096 bytes,
-- the only size in use, at most the first 1002 bytes of a long row stay on the row's page. They end
-- inside of the `padding` column, so the key after it is never moved.
CREATE TABLE tenant_keys (
    tenant  BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    padding BLOB NOT NULL CHECK (padding = zeroblob(1024)),
    wrapped BLOB NOT NULL,
    PRIMARY KEY (tenant, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE permanent_keys (
    tenant  BLOB NOT NULL PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    padding BLOB NOT NULL CHECK (padding = zeroblob(1024)),
    wrapped BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE applications (
    tenant      BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          BLOB NOT NULL,
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    access      TEXT NOT NULL,
    created_by  BLOB,
    created_at  INTEGER NOT NULL,
    modified_by BLOB,
    modified_at INTEGER,
    mac         BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    tenant      BLOB NOT NULL,
    application BLOB NOT NULL,
    id          BLOB NOT NULL,
    digest      BLOB NOT NULL UNIQUE,
    created_by  BLOB,
    created_at  INTEGER NOT NULL,
    mac         BLOB NOT NULL,
    PRIMARY KEY (tenant, application, id),
    FOREIGN KEY (tenant, application) REFERENCES applications (tenant, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Deleted tenants with rows that are not purged yet. Their keys are destroyed, so the rows cannot
-- be decrypted.
CREATE TABLE deleted_tenants (
    id         BLOB NOT NULL PRIMARY KEY,
    deleted_at INTEGER NOT NULL,
    mac        BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE access_sessions (
    seq           INTEGER PRIMARY KEY,
    digest        BLOB NOT NULL UNIQUE,
    nonce         BLOB NOT NULL UNIQUE,
    tenant        BLOB NOT NULL,
    application   BLOB NOT NULL,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    authorized_by BLOB,
    authorized_key BLOB,
    authorized_at INTEGER,
    access        TEXT,
    mac           BLOB NOT NULL
) STRICT;

CREATE INDEX access_sessions_by_expiry ON access_sessions (expires_at);

-- The cost of an insert is its page writes, and an index entry at a random position costs a page.
-- So rows are stored in order of creation, and there are only the indexes that the API needs.
CREATE TABLE tokens (
    seq           INTEGER PRIMARY KEY,
    tenant        BLOB NOT NULL,
    id            TEXT NOT NULL,
    type          TEXT NOT NULL,
    fingerprint   BLOB,
    -- Digests of the token's expressions, and whether they are trusted.
    expressions   BLOB NOT NULL,
    containers    TEXT NOT NULL,
    created_by    BLOB NOT NULL,
    created_at    INTEGER NOT NULL,
    modified_by   BLOB,
    modified_at   INTEGER,
    expires_at    INTEGER,
    revision      INTEGER NOT NULL,
    -- Concatenated digests of 16 bytes each.
    indexes       BLOB NOT NULL,
    body          BLOB NOT NULL,
    -- Lookup keys for deduplication, derived from other columns.
    duplicate_key      BLOB,
    duplicate_read_key BLOB
) STRICT;

CREATE UNIQUE INDEX tokens_by_id ON tokens (tenant, id);
-- The latest expiry comes first, so a search for a duplicate never scans expired rows.
CREATE INDEX tokens_by_duplicate_key
    ON tokens (tenant, duplicate_key, ifnull(expires_at, 9223372036854775807) DESC, created_at)
    WHERE duplicate_key IS NOT NULL;
CREATE INDEX tokens_by_duplicate_read_key
    ON tokens (tenant, duplicate_read_key, ifnull(expires_at, 9223372036854775807) DESC, created_at)
    WHERE duplicate_read_key IS NOT NULL;
-- Partial: a token that never expires has no entry.
CREATE INDEX tokens_by_expiry ON tokens (expires_at) WHERE expires_at IS NOT NULL;

-- The token index: an entry per facet (type, fingerprint, index digests) and container, in list
-- order. The entries of a token are derived from its row, so deleting them needs no other index.
CREATE TABLE token_index (
    tenant     BLOB NOT NULL,
    facet      BLOB NOT NULL,
    container  TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    token      INTEGER NOT NULL,
    PRIMARY KEY (tenant, facet, container, created_at, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE cvcs (
    token      INTEGER PRIMARY KEY REFERENCES tokens (seq) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL,
    sealed     BLOB NOT NULL
) STRICT;

-- Almost in order of creation, because all CVCs of a tenant have the same retention: an insert
-- appends to a page that the commit writes anyway.
CREATE INDEX cvcs_by_expiry ON cvcs (expires_at);

-- Tokens per type and created tokens per month. Updated once per commit, for all tokens that it
-- created and deleted.
CREATE TABLE usage_types (
    tenant          BLOB NOT NULL,
    type            TEXT NOT NULL,
    count           INTEGER NOT NULL,
    last_created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, type)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_months (
    month   INTEGER NOT NULL,
    tenant  BLOB NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (month, tenant)
) STRICT, WITHOUT ROWID;

-- Data that can be converted to a token. It is found by its id only, and expires.
CREATE TABLE token_intents (
    seq         INTEGER PRIMARY KEY,
    tenant      BLOB NOT NULL,
    id          BLOB NOT NULL,
    type        TEXT NOT NULL,
    fingerprint BLOB,
    containers  TEXT NOT NULL,
    created_by  BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    body        BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX token_intents_by_id ON token_intents (tenant, id);
CREATE INDEX token_intents_by_expiry ON token_intents (expires_at);

CREATE TABLE intent_cvcs (
    intent     INTEGER PRIMARY KEY REFERENCES token_intents (seq) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL,
    sealed     BLOB NOT NULL
) STRICT;

CREATE INDEX intent_cvcs_by_expiry ON intent_cvcs (expires_at);

-- 3DS sessions. A directory server that posts a result names no tenant, so ids are unique across
-- tenants.
CREATE TABLE threeds_sessions (
    seq        INTEGER PRIMARY KEY,
    tenant     BLOB NOT NULL,
    id         BLOB NOT NULL,
    created_by BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    deletes_at INTEGER,
    revision   INTEGER NOT NULL,
    -- The card: a token, or an intent that may be converted to one.
    token      TEXT,
    intent     BLOB,
    -- Written by the conversion, with a separate MAC.
    converted_containers TEXT,
    converted_number_version BLOB,
    converted_mac BLOB,
    body       BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX threeds_sessions_by_id ON threeds_sessions (id);
CREATE INDEX threeds_sessions_by_token ON threeds_sessions (tenant, token) WHERE token IS NOT NULL;
CREATE INDEX threeds_sessions_by_intent ON threeds_sessions (tenant, intent) WHERE intent IS NOT NULL;
-- Partial: an authenticated session does not expire and has no entry.
CREATE INDEX threeds_sessions_by_expiry ON threeds_sessions (deletes_at) WHERE deletes_at IS NOT NULL;
-- For the purge of deleted tenants.
CREATE INDEX threeds_sessions_by_tenant ON threeds_sessions (tenant);

-- Events of 3DS sessions, in commit order.
CREATE TABLE threeds_events (
    seq         INTEGER PRIMARY KEY,
    tenant      BLOB NOT NULL,
    id          BLOB NOT NULL,
    occurred_at INTEGER NOT NULL,
    body        BLOB NOT NULL
) STRICT;

CREATE INDEX threeds_events_by_time ON threeds_events (occurred_at);
CREATE INDEX threeds_events_by_tenant ON threeds_events (tenant);

-- The number of the last event. A consumer continues after the last number that it read. So a
-- number is never reused, even after all events are deleted.
CREATE TABLE threeds_event_state (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    last_seq  INTEGER NOT NULL
) STRICT;

INSERT INTO threeds_event_state (singleton, last_seq) VALUES (1, 0);

-- Card numbers that callers without the right to reveal had evaluated, and searches without a
-- result. Bucket and number are keyed digests; the first byte of a bucket is its kind.
CREATE TABLE guesses (
    tenant        BLOB NOT NULL,
    bucket        BLOB NOT NULL,
    number_digest BLOB NOT NULL,
    counted_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant, bucket, number_digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX guesses_by_expiry ON guesses (expires_at);

CREATE TABLE idempotency_records (
    seq        INTEGER PRIMARY KEY,
    tenant     BLOB NOT NULL,
    digest     BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    head       BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX idempotency_records_by_digest ON idempotency_records (digest);

-- The token data of a stored response. Any deletion of a token also deletes its data here.
CREATE TABLE response_token_data (
    record      INTEGER NOT NULL REFERENCES idempotency_records (seq) ON DELETE CASCADE,
    write_index INTEGER NOT NULL,
    token       INTEGER NOT NULL REFERENCES tokens (seq) ON DELETE CASCADE,
    sealed      BLOB NOT NULL,
    PRIMARY KEY (record, write_index)
) STRICT, WITHOUT ROWID;

CREATE INDEX response_token_data_by_token ON response_token_data (token);

-- The audit log: one hash chain per tenant. Sequence numbers start at 1 without gaps; a link is a
-- MAC over every column and the previous link.
CREATE TABLE log_records (
    tenant     BLOB NOT NULL,
    sequence   INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    actor_kind TEXT NOT NULL,
    actor      BLOB,
    operation  TEXT NOT NULL,
    entity     TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    trace      TEXT NOT NULL,
    address    TEXT NOT NULL,
    api_key    BLOB,
    os_user    TEXT,
    repeats    INTEGER,
    link       BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX log_records_by_sequence ON log_records (tenant, sequence);

-- The head of each chain. It stays when the tenant is deleted or all records are pruned.
CREATE TABLE chain_heads (
    tenant            BLOB NOT NULL PRIMARY KEY,
    sequence          INTEGER NOT NULL,
    at                INTEGER NOT NULL,
    link              BLOB NOT NULL,
    -- Retention of a deleted tenant's records.
    retention_seconds INTEGER,
    mac               BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The last pruned record of each chain.
CREATE TABLE chain_checkpoints (
    tenant   BLOB NOT NULL PRIMARY KEY,
    sequence INTEGER NOT NULL,
    link     BLOB NOT NULL,
    at       INTEGER NOT NULL,
    mac      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
