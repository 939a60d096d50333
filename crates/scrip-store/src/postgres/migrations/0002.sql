-- Version 2: proxies, and the detail of a proxied call in the logs.

-- The settings and the secrets are sealed. A policy change checks, under the lock of the directory
-- version, that digests and hosts are unique across tenants.
CREATE TABLE proxies (
    tenant                 UUID NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id                     UUID NOT NULL,
    digest                 BYTEA NOT NULL,
    name                   TEXT NOT NULL,
    application            UUID,
    require_auth           BIGINT NOT NULL,
    disable_detokenization BIGINT NOT NULL,
    host                   TEXT COLLATE "C",
    settings               BYTEA NOT NULL,
    secrets                BYTEA NOT NULL,
    created_by             UUID,
    created_at             BIGINT NOT NULL,
    modified_by            UUID,
    modified_at            BIGINT,
    mac                    BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX proxies_by_digest ON proxies (digest);
CREATE INDEX proxies_by_host ON proxies (host) WHERE host IS NOT NULL;

ALTER TABLE proxies ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON proxies USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

-- Of a proxied call.
ALTER TABLE log_records ADD COLUMN detail TEXT;
