-- Version 11: unlock methods of the vault key.

-- The id of the vault and the version of its key. A vault without this row has no unlock methods:
-- the root key of the settings is its vault key.
CREATE TABLE vault_state (
    singleton   INTEGER PRIMARY KEY CHECK (singleton = 1),
    vault_id    BLOB NOT NULL,
    key_version INTEGER NOT NULL
) STRICT;

-- The vault key, wrapped by each unlock method. A removed method must leave no copy, so the wrapped
-- key has padding, as in tenant_keys.
CREATE TABLE unlocks (
    id          BLOB NOT NULL PRIMARY KEY,
    padding     BLOB NOT NULL CHECK (padding = zeroblob(1024)),
    wrapped     BLOB NOT NULL,
    kind        TEXT NOT NULL,
    label       TEXT NOT NULL,
    -- JSON, without secrets.
    parameters  TEXT NOT NULL,
    key_version INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    checked_at  INTEGER,
    state       TEXT NOT NULL,
    mac         BLOB NOT NULL
) STRICT, WITHOUT ROWID;
