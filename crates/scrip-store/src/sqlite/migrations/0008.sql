-- Version 8: client encryption keys.

-- The private key is sealed. A row never changes.
CREATE TABLE client_keys (
    tenant      BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          BLOB NOT NULL,
    expires_at  INTEGER NOT NULL,
    private_key BLOB NOT NULL,
    created_by  BLOB,
    created_at  INTEGER NOT NULL,
    mac         BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
