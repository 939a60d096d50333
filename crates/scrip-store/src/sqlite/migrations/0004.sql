-- Everything that speaks about a person is inside a sealed body. What stands beside it in clear is
-- bound to it, and is here because a query needs it.

CREATE TABLE system_keys (
    name    TEXT NOT NULL PRIMARY KEY,
    wrapped BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Grows with every change of what follows, so that other processes see that there was one.
CREATE TABLE directory_state (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;

INSERT INTO directory_state (one, version) VALUES (1, 0);

-- How late it was when a server last looked, so that none starts before it.
CREATE TABLE clock_state (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    now      INTEGER NOT NULL,
    earliest INTEGER NOT NULL,
    mac      BLOB NOT NULL
) STRICT;

-- Policy stands in clear, so every row has a mac over all of its columns, and a tenant's row has
-- one over the macs of all of its policy, with a counter.
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
    -- When its keys are destroyed, for a tenant that was deleted.
    deletes_at     INTEGER,
    mac            BLOB NOT NULL,
    policy_counter INTEGER NOT NULL,
    policy_mac     BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys are destroyed by overwriting them, so there must be one copy of each. But the engine moves
-- rows between pages as others come and go, and leaves what it moved where it was, `secure_delete` or
-- not. What it never moves is the part of a long row that does not fit on the row's page: that has
-- pages of its own, which are overwritten when they are freed. Of a row that is too long at most 1002
-- bytes stay, with pages of 4096 bytes, and no others are used. Those are the beginning of the row,
-- which ends before what stands `apart` does; so what comes after that is never moved.
CREATE TABLE tenant_keys (
    tenant  BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    apart   BLOB NOT NULL CHECK (apart = zeroblob(1024)),
    wrapped BLOB NOT NULL,
    PRIMARY KEY (tenant, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE lasting_keys (
    tenant  BLOB NOT NULL PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    apart   BLOB NOT NULL CHECK (apart = zeroblob(1024)),
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

-- Tenants whose tokens are still to be removed. Their keys are gone, so none of it opens.
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

CREATE INDEX access_sessions_by_end ON access_sessions (expires_at);

-- Page writes are what an insert costs, and a random index entry is a page of its own. So rows lie
-- in the order of their making, and only what the contract needs is indexed.
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
    -- Digests of 16 bytes each, one after the other.
    indexes       BLOB NOT NULL,
    body          BLOB NOT NULL,
    -- By which a later token with the same data finds this one; they repeat what other columns say.
    duplicate_key      BLOB,
    duplicate_read_key BLOB
) STRICT;

CREATE UNIQUE INDEX tokens_by_id ON tokens (tenant, id);
-- The longest-lived comes first, so a search for a duplicate never walks expired rows.
CREATE INDEX tokens_by_duplicate_key
    ON tokens (tenant, duplicate_key, ifnull(expires_at, 9223372036854775807) DESC, created_at)
    WHERE duplicate_key IS NOT NULL;
CREATE INDEX tokens_by_duplicate_read_key
    ON tokens (tenant, duplicate_read_key, ifnull(expires_at, 9223372036854775807) DESC, created_at)
    WHERE duplicate_read_key IS NOT NULL;
-- Costs nothing for a token that never expires.
CREATE INDEX tokens_by_end ON tokens (expires_at) WHERE expires_at IS NOT NULL;

-- By what a token can be asked for: its type, its fingerprint and its indexes, in each of its
-- containers and in the order of lists. A token's row says all of its entries, so that they are
-- removed without another index.
CREATE TABLE filed (
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

-- Almost in the order of their making, since every code of a tenant is kept equally long: an insert
-- goes to the end, to a page that the commit writes anyway.
CREATE INDEX cvcs_by_end ON cvcs (expires_at);

-- How many tokens of each type a tenant has, and how many it made in each month. Changed once in each
-- commit, for all the tokens that came and went in it.
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

-- Data that waits to become a token. It is asked for by its id only, and ends by itself.
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
CREATE INDEX token_intents_by_end ON token_intents (expires_at);

CREATE TABLE intent_cvcs (
    intent     INTEGER PRIMARY KEY REFERENCES token_intents (seq) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL,
    sealed     BLOB NOT NULL
) STRICT;

CREATE INDEX intent_cvcs_by_end ON intent_cvcs (expires_at);

-- 3-D Secure sessions. A directory server that posts a result names no tenant, so ids are of all.
CREATE TABLE sessions (
    seq        INTEGER PRIMARY KEY,
    tenant     BLOB NOT NULL,
    id         BLOB NOT NULL,
    created_by BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    ends_at    INTEGER,
    revision   INTEGER NOT NULL,
    -- The card: a token, or an intent that may be converted into one.
    token      TEXT,
    intent     BLOB,
    -- Written by the conversion, with a mac of its own.
    converted_containers TEXT,
    converted_number_version BLOB,
    converted_mac BLOB,
    body       BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
CREATE INDEX sessions_by_token ON sessions (tenant, token) WHERE token IS NOT NULL;
CREATE INDEX sessions_by_intent ON sessions (tenant, intent) WHERE intent IS NOT NULL;
-- Costs nothing for a session that was authenticated, which is kept.
CREATE INDEX sessions_by_end ON sessions (ends_at) WHERE ends_at IS NOT NULL;
-- For what a deleted tenant leaves.
CREATE INDEX sessions_by_tenant ON sessions (tenant);

-- What is to be told of sessions, in the order of commits.
CREATE TABLE session_events (
    seq    INTEGER PRIMARY KEY,
    tenant BLOB NOT NULL,
    id     BLOB NOT NULL,
    at     INTEGER NOT NULL,
    body   BLOB NOT NULL
) STRICT;

CREATE INDEX session_events_by_time ON session_events (at);
CREATE INDEX session_events_by_tenant ON session_events (tenant);

-- The number of the last event. Whoever delivers them remembers a number and goes on behind it, so
-- none may be given twice, also when all events are gone.
CREATE TABLE event_state (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
) STRICT;

INSERT INTO event_state (one, last) VALUES (1, 0);

-- Numbers that callers without a reveal right had evaluated, and searches without a result. All names
-- are keyed digests; the first byte of a bucket says who shares it and what it counts.
CREATE TABLE guesses (
    tenant     BLOB NOT NULL,
    bucket     BLOB NOT NULL,
    number     BLOB NOT NULL,
    counted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, bucket, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX guesses_by_end ON guesses (expires_at);

CREATE TABLE answers (
    seq        INTEGER PRIMARY KEY,
    tenant     BLOB NOT NULL,
    digest     BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    head       BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX answers_by_digest ON answers (digest);

-- What an answer shows of each token. However a token goes, no remembered answer keeps its data.
CREATE TABLE answer_data (
    answer INTEGER NOT NULL REFERENCES answers (seq) ON DELETE CASCADE,
    at     INTEGER NOT NULL,
    token  INTEGER NOT NULL REFERENCES tokens (seq) ON DELETE CASCADE,
    sealed BLOB NOT NULL,
    PRIMARY KEY (answer, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX answer_data_by_token ON answer_data (token);

-- What was done, by whom: one chain for each tenant. Numbers rise by one from 1; a link is a mac over
-- every column and the link before it.
CREATE TABLE audit (
    tenant     BLOB NOT NULL,
    n          INTEGER NOT NULL,
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

CREATE UNIQUE INDEX audit_by_number ON audit (tenant, n);

-- Where each chain ends, also when its tenant is deleted, or all of it pruned.
CREATE TABLE audit_heads (
    tenant            BLOB NOT NULL PRIMARY KEY,
    n                 INTEGER NOT NULL,
    at                INTEGER NOT NULL,
    link              BLOB NOT NULL,
    -- How long the records of a deleted tenant are kept.
    retention_seconds INTEGER,
    mac               BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Up to where it was pruned.
CREATE TABLE audit_checkpoints (
    tenant BLOB NOT NULL PRIMARY KEY,
    n      INTEGER NOT NULL,
    link   BLOB NOT NULL,
    at     INTEGER NOT NULL,
    mac    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
