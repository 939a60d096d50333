-- The read log: reads and rejected requests, in a separate file, so that reads never wait for the
-- writer of the vault. The tables have the same names as those of the audit log.
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
    -- Only the audit log has it, for both logs.
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

-- Tokens of earlier months that were used in a month, and their number. The list exists only during
-- the month.
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
