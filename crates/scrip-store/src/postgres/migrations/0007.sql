-- Version 7: rotation of the sealing keys of tenants.

-- The version that seals; NULL for the newest. Part of the MAC if there is one.
ALTER TABLE tenants ADD COLUMN sealing_version BIGINT;

-- Where the background work of a rotation continues. The keys of a tenant decide how far its
-- rotation is, so these rows need no MAC. A finished rotation stays until the next one.
CREATE TABLE key_rotations (
    tenant      UUID NOT NULL PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    to_version  BIGINT NOT NULL,
    started_at  BIGINT NOT NULL,
    promoted_at BIGINT,
    finished_at BIGINT,
    paused      BIGINT NOT NULL,
    pass        BIGINT NOT NULL,
    -- The current table, NULL at the end of a pass, and the last row in it that is done.
    table_name  TEXT,
    last_key    TEXT,
    resealed    BIGINT NOT NULL,
    unopened    BIGINT NOT NULL,
    -- The node that works on the rotation.
    node        UUID,
    lease_until BIGINT NOT NULL
);

ALTER TABLE key_rotations ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON key_rotations USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');
