-- Version 3: webhooks.

-- The settings and the secrets are sealed.
CREATE TABLE webhooks (
    tenant      UUID NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          UUID NOT NULL,
    name        TEXT NOT NULL,
    status      TEXT NOT NULL,
    events      TEXT NOT NULL,
    settings    BYTEA NOT NULL,
    secrets     BYTEA NOT NULL,
    created_by  UUID,
    created_at  BIGINT NOT NULL,
    modified_by UUID,
    modified_at BIGINT,
    mac         BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

ALTER TABLE webhooks ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON webhooks USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');
