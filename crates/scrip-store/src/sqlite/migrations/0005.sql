-- Version 5: proxies, and the detail of a proxied call in the audit log.

-- The settings and the secrets are sealed.
CREATE TABLE proxies (
    tenant                 BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id                     BLOB NOT NULL,
    digest                 BLOB NOT NULL UNIQUE,
    name                   TEXT NOT NULL,
    application            BLOB,
    require_auth           INTEGER NOT NULL,
    disable_detokenization INTEGER NOT NULL,
    host                   TEXT UNIQUE,
    settings               BLOB NOT NULL,
    secrets                BLOB NOT NULL,
    created_by             BLOB,
    created_at             INTEGER NOT NULL,
    modified_by            BLOB,
    modified_at            INTEGER,
    mac                    BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- Of a proxied call.
ALTER TABLE log_records ADD COLUMN detail TEXT;
