-- Everything that speaks about a person is inside a sealed body. What stands beside it in clear is
-- bound to it, and is here because a query needs it.

CREATE TABLE system_keys (
    name    TEXT NOT NULL PRIMARY KEY,
    wrapped BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenants (
    id          BLOB NOT NULL PRIMARY KEY,
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    settings    TEXT NOT NULL,
    lasting_key BLOB NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenant_keys (
    tenant  BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    wrapped BLOB NOT NULL,
    PRIMARY KEY (tenant, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE applications (
    id         BLOB NOT NULL PRIMARY KEY,
    tenant     BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    access     TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    id          BLOB NOT NULL PRIMARY KEY,
    tenant      BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    application BLOB NOT NULL REFERENCES applications (id) ON DELETE CASCADE,
    digest      BLOB NOT NULL UNIQUE,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Page writes are what an insert costs, and a random index entry is a page of its own. So rows lie
-- in the order of their making, and only what the contract needs is indexed.
CREATE TABLE tokens (
    seq           INTEGER PRIMARY KEY,
    tenant        BLOB NOT NULL,
    id            TEXT NOT NULL,
    type          TEXT NOT NULL,
    fingerprint   BLOB,
    containers    TEXT NOT NULL,
    -- The same set in any order has the same text: what deduplication compares.
    container_set TEXT NOT NULL,
    created_by    BLOB NOT NULL,
    created_at    INTEGER NOT NULL,
    modified_by   BLOB,
    modified_at   INTEGER,
    expires_at    INTEGER,
    revision      INTEGER NOT NULL,
    body          BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX tokens_by_id ON tokens (tenant, id);

-- A fingerprint is keyed by the tenant, so it needs no tenant before it.
CREATE INDEX tokens_by_fingerprint ON tokens (fingerprint, container_set)
    WHERE fingerprint IS NOT NULL;

CREATE TABLE cvcs (
    token      INTEGER PRIMARY KEY REFERENCES tokens (seq) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL,
    sealed     BLOB NOT NULL
) STRICT;

CREATE TABLE search_indexes (
    tenant BLOB NOT NULL,
    digest BLOB NOT NULL,
    token  INTEGER NOT NULL REFERENCES tokens (seq) ON DELETE CASCADE,
    PRIMARY KEY (tenant, digest, token)
) STRICT, WITHOUT ROWID;

CREATE INDEX search_indexes_by_token ON search_indexes (token);

CREATE TABLE answers (
    seq        INTEGER PRIMARY KEY,
    tenant     BLOB NOT NULL,
    digest     BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    head       BLOB NOT NULL,
    data       BLOB,
    token      INTEGER
) STRICT;

CREATE UNIQUE INDEX answers_by_digest ON answers (digest);
CREATE INDEX answers_by_token ON answers (token) WHERE token IS NOT NULL;

-- However a token goes, no remembered answer keeps its data.
CREATE TRIGGER tokens_forget_answers AFTER DELETE ON tokens BEGIN
    UPDATE answers SET data = NULL, token = NULL WHERE token = OLD.seq;
END;

CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY,
    tenant    BLOB NOT NULL,
    at        INTEGER NOT NULL,
    actor     BLOB NOT NULL,
    operation TEXT NOT NULL,
    entity    TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    trace     TEXT NOT NULL,
    address   TEXT NOT NULL
) STRICT;
