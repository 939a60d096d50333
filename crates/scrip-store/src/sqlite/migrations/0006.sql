-- Version 6: webhooks.

-- The settings and the secrets are sealed.
CREATE TABLE webhooks (
    tenant      BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          BLOB NOT NULL,
    name        TEXT NOT NULL,
    status      TEXT NOT NULL,
    events      TEXT NOT NULL,
    settings    BLOB NOT NULL,
    secrets     BLOB NOT NULL,
    created_by  BLOB,
    created_at  INTEGER NOT NULL,
    modified_by BLOB,
    modified_at INTEGER,
    mac         BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
