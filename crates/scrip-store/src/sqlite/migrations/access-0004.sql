-- The access log: what was seen and what was refused, in a file of its own, so that reads never wait
-- for a writer of the vault. The tables are those of the audit log, and have their names.
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
    -- Only the audit log says it, for both.
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

-- Which tokens of an earlier month were used in one, and how many: the first only while it lasts.
CREATE TABLE active_tokens (
    month  INTEGER NOT NULL,
    tenant BLOB NOT NULL,
    token  TEXT NOT NULL,
    PRIMARY KEY (month, tenant, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE active_months (
    month  INTEGER NOT NULL,
    tenant BLOB NOT NULL,
    active INTEGER NOT NULL,
    PRIMARY KEY (month, tenant)
) STRICT, WITHOUT ROWID;
