-- Everything that speaks about a person is inside a sealed body. What stands beside it in clear is
-- bound to it, and is here because a query needs it.
--
-- The tenant is the first column of every key that must be unique, but for the id of a 3-D Secure
-- session, and no number comes from a sequence, so that engines which spread rows over machines can
-- serve this, too. What is compared or ordered by its bytes has the collation "C".
--
-- At the end stand the policies: a row is seen and written only by a transaction that said it is about
-- its tenant.

CREATE TABLE system_keys (
    name    TEXT PRIMARY KEY,
    wrapped BYTEA NOT NULL
);

-- Grows with every change of what follows, so that other nodes see that there was one.
CREATE TABLE directory_state (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version BIGINT NOT NULL
);

INSERT INTO directory_state (one, version) VALUES (1, 0);

-- How late it was when a server last looked, so that none starts before it.
CREATE TABLE clock_state (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    now      BIGINT NOT NULL,
    earliest BIGINT NOT NULL,
    mac      BYTEA NOT NULL
);

-- How far an import has come that has not ended. While there is a row, nobody serves this vault.
CREATE TABLE import_state (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    file     BYTEA NOT NULL,
    portions BIGINT NOT NULL,
    sum      BYTEA NOT NULL
);

-- Whoever writes to a tenant's rows or to one of its logs first changes its row here, and so waits
-- for whoever did so before. It is also where tokens get their numbers from.
CREATE TABLE lanes (
    tenant     UUID NOT NULL,
    log        TEXT NOT NULL,
    last_token BIGINT NOT NULL,
    PRIMARY KEY (tenant, log)
) WITH (fillfactor = 50);

-- Policy stands in clear, so every row has a mac over all of its columns, and a tenant's row has
-- one over the macs of all of its policy, with a counter.
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
    -- When its keys are destroyed, for a tenant that was deleted.
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

CREATE TABLE lasting_keys (
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

-- That no two tenants have one digest is checked under the lock on the version of the directory.
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

-- Tenants whose tokens are still to be removed. Their keys are gone, so none of it opens.
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
CREATE INDEX access_sessions_by_end ON access_sessions (expires_at);

-- A number tells apart what one instant made; it rises within a tenant.
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
    -- Digests of 16 bytes each, one after the other.
    indexes     BYTEA NOT NULL,
    body        BYTEA NOT NULL,
    -- By which a later token with the same data finds this one; they repeat what other columns say.
    duplicate_key      BYTEA,
    duplicate_read_key BYTEA,
    PRIMARY KEY (tenant, number),
    UNIQUE (tenant, id)
);

-- The longest-lived comes first, so a search for a duplicate never walks expired rows.
CREATE INDEX tokens_by_duplicate_key
    ON tokens (tenant, duplicate_key, (coalesce(expires_at, 9223372036854775807)) DESC, created_at, number)
    WHERE duplicate_key IS NOT NULL;
CREATE INDEX tokens_by_duplicate_read_key
    ON tokens (tenant, duplicate_read_key, (coalesce(expires_at, 9223372036854775807)) DESC, created_at, number)
    WHERE duplicate_read_key IS NOT NULL;

-- A sealed body is random: to compress it would cost time and save nothing.
ALTER TABLE tokens ALTER COLUMN body SET STORAGE EXTERNAL;

-- Costs nothing for a token that never expires.
CREATE INDEX tokens_by_end ON tokens (expires_at, tenant) WHERE expires_at IS NOT NULL;

-- By what a token can be asked for: its type, its fingerprint and its indexes, in each of its
-- containers and in the order of lists.
CREATE TABLE filed (
    tenant     UUID NOT NULL,
    facet      BYTEA NOT NULL,
    container  TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    token      BIGINT NOT NULL,
    PRIMARY KEY (tenant, facet, container, created_at, token)
);

-- Codes are not in the write-ahead log, nor on a standby, nor there after a crash: see
-- docs/decisions/0034-postgresql.md.
CREATE UNLOGGED TABLE cvcs (
    tenant     UUID NOT NULL,
    token      BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    sealed     BYTEA NOT NULL,
    PRIMARY KEY (tenant, token),
    FOREIGN KEY (tenant, token) REFERENCES tokens (tenant, number) ON DELETE CASCADE
);

CREATE INDEX cvcs_by_end ON cvcs (expires_at);

-- How many tokens of each type a tenant has, and how many it made in each month. Changed once in
-- each transaction.
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

-- Which tokens of an earlier month were used in one, and how many: the first only while it lasts.
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

-- Data that waits to become a token. It is asked for by its id only, and ends by itself.
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
CREATE INDEX token_intents_by_end ON token_intents (expires_at, tenant);

CREATE UNLOGGED TABLE intent_cvcs (
    tenant     UUID NOT NULL,
    intent     UUID NOT NULL,
    expires_at BIGINT NOT NULL,
    sealed     BYTEA NOT NULL,
    PRIMARY KEY (tenant, intent),
    FOREIGN KEY (tenant, intent) REFERENCES token_intents (tenant, id) ON DELETE CASCADE
);

CREATE INDEX intent_cvcs_by_end ON intent_cvcs (expires_at);

-- 3-D Secure sessions. A directory server that posts a result names no tenant, so they are found by
-- their id alone, which no two tenants may have.
CREATE TABLE sessions (
    tenant     UUID NOT NULL,
    id         UUID NOT NULL,
    created_by UUID NOT NULL,
    created_at BIGINT NOT NULL,
    ends_at    BIGINT,
    revision   BIGINT NOT NULL,
    -- The card: a token, or an intent that may be converted into one.
    token      TEXT,
    intent     UUID,
    -- Written by the conversion, with a mac of its own.
    converted_containers TEXT,
    converted_number_version UUID,
    converted_mac BYTEA,
    body       BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
CREATE INDEX sessions_by_token ON sessions (tenant, token) WHERE token IS NOT NULL;
CREATE INDEX sessions_by_intent ON sessions (tenant, intent) WHERE intent IS NOT NULL;
CREATE INDEX sessions_by_end ON sessions (ends_at, tenant) WHERE ends_at IS NOT NULL;

-- What is to be told of sessions, in the order of commits.
CREATE TABLE session_events (
    tenant UUID NOT NULL,
    seq    BIGINT NOT NULL,
    id     UUID NOT NULL,
    at     BIGINT NOT NULL,
    body   BYTEA NOT NULL,
    PRIMARY KEY (tenant, seq)
);

CREATE INDEX session_events_by_seq ON session_events (seq);
CREATE INDEX session_events_by_time ON session_events (at);

-- The number of the last event. Whoever delivers them remembers a number and goes on behind it, so
-- none may be given twice, and a lower one must not be seen after a higher one: the row is locked
-- until the commit.
CREATE TABLE event_state (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last BIGINT NOT NULL
) WITH (fillfactor = 50);

INSERT INTO event_state (one, last) VALUES (1, 0);

-- Numbers that callers without a reveal right had evaluated, and searches without a result. All names
-- are keyed digests; the first byte of a bucket says who shares it and what it counts.
CREATE TABLE guesses (
    tenant     UUID NOT NULL,
    bucket     BYTEA NOT NULL,
    number     BYTEA NOT NULL,
    counted_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, bucket, number)
);

CREATE INDEX guesses_by_end ON guesses (expires_at);

CREATE TABLE answers (
    tenant     UUID NOT NULL,
    digest     BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    head       BYTEA NOT NULL,
    PRIMARY KEY (tenant, digest)
);

CREATE INDEX answers_by_time ON answers (created_at);

-- What an answer shows of each token. However a token goes, no remembered answer keeps its data.
CREATE TABLE answer_data (
    tenant UUID NOT NULL,
    digest BYTEA NOT NULL,
    at     BIGINT NOT NULL,
    token  BIGINT NOT NULL,
    sealed BYTEA NOT NULL,
    PRIMARY KEY (tenant, digest, at),
    FOREIGN KEY (tenant, digest) REFERENCES answers (tenant, digest) ON DELETE CASCADE,
    FOREIGN KEY (tenant, token) REFERENCES tokens (tenant, number) ON DELETE CASCADE
);

CREATE INDEX answer_data_by_token ON answer_data (tenant, token);

-- What was done and what was seen, by whom: one chain for each tenant and log. Numbers rise by one
-- from 1; a link is a mac over every column and the link before it.
CREATE TABLE records (
    tenant     UUID NOT NULL,
    log        TEXT NOT NULL,
    n          BIGINT NOT NULL,
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
    PRIMARY KEY (tenant, log, n)
);

-- Where each chain ends, also when its tenant is deleted, or all of it pruned.
CREATE TABLE heads (
    tenant            UUID NOT NULL,
    log               TEXT NOT NULL,
    n                 BIGINT NOT NULL,
    at                BIGINT NOT NULL,
    link              BYTEA NOT NULL,
    -- How long the records of a deleted tenant are kept; only in the audit log, for both.
    retention_seconds BIGINT,
    mac               BYTEA NOT NULL,
    PRIMARY KEY (tenant, log)
) WITH (fillfactor = 50);

-- Up to where it was pruned.
CREATE TABLE checkpoints (
    tenant UUID NOT NULL,
    log    TEXT NOT NULL,
    n      BIGINT NOT NULL,
    link   BYTEA NOT NULL,
    at     BIGINT NOT NULL,
    mac    BYTEA NOT NULL,
    PRIMARY KEY (tenant, log)
);

-- The second wall between tenants (postgres/scope.rs). Also for the owner of the tables; never for a
-- superuser. What goes with a row by a foreign key goes past it. Compared as text, since what was
-- said may be nothing, or the word for every tenant, which are no UUIDs.

ALTER TABLE lanes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON lanes USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON tenants USING (id::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE tenant_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON tenant_keys USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE lasting_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON lasting_keys USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE applications ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON applications USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON api_keys USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE deleted_tenants ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON deleted_tenants USING (id::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE access_sessions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON access_sessions USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE tokens ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON tokens USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE filed ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON filed USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE cvcs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON cvcs USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE usage_types ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON usage_types USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE usage_months ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON usage_months USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE active_tokens ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON active_tokens USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE active_months ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON active_months USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE token_intents ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON token_intents USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE intent_cvcs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON intent_cvcs USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE sessions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON sessions USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE session_events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON session_events USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE guesses ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON guesses USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE answers ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON answers USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE answer_data ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON answer_data USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE records ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON records USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE heads ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON heads USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');

ALTER TABLE checkpoints ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON checkpoints USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'every');
