-- Version 8: unlock methods of the vault key.

-- The id of the vault and the version of its key. A vault without this row has no unlock methods:
-- the root key of the settings is its vault key.
CREATE TABLE vault_state (
    singleton   INTEGER PRIMARY KEY CHECK (singleton = 1),
    vault_id    UUID NOT NULL,
    key_version BIGINT NOT NULL
);

-- The vault key, wrapped by each unlock method.
CREATE TABLE unlocks (
    id          UUID PRIMARY KEY,
    wrapped     BYTEA NOT NULL,
    kind        TEXT NOT NULL,
    label       TEXT NOT NULL,
    -- JSON, without secrets.
    parameters  TEXT NOT NULL,
    key_version BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    checked_at  BIGINT,
    state       TEXT NOT NULL,
    mac         BYTEA NOT NULL
);
