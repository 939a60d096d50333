-- Version 10: rotation of the sealing keys of tenants.

-- The version that seals; NULL for the newest. Part of the MAC if there is one.
ALTER TABLE tenants ADD COLUMN sealing_version INTEGER;

-- Where the background work of a rotation continues. The keys of a tenant decide how far its
-- rotation is, so these rows need no MAC. A finished rotation stays until the next one.
CREATE TABLE key_rotations (
    tenant      BLOB NOT NULL PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    to_version  INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    promoted_at INTEGER,
    finished_at INTEGER,
    paused      INTEGER NOT NULL,
    pass        INTEGER NOT NULL,
    -- The current table, NULL at the end of a pass, and the last row in it that is done.
    table_name  TEXT,
    last_key    TEXT,
    resealed    INTEGER NOT NULL,
    unopened    INTEGER NOT NULL,
    -- The node that works on the rotation.
    node        BLOB,
    lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A rotation reads the sessions of a tenant in the order of their ids.
DROP INDEX threeds_sessions_by_tenant;
CREATE INDEX threeds_sessions_by_tenant ON threeds_sessions (tenant, id);
