-- Version 5: client encryption keys.

-- The private key is sealed. A row never changes.
CREATE TABLE client_keys (
    tenant      UUID NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          UUID NOT NULL,
    expires_at  BIGINT NOT NULL,
    private_key BYTEA NOT NULL,
    created_by  UUID,
    created_at  BIGINT NOT NULL,
    mac         BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

ALTER TABLE client_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON client_keys USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');
