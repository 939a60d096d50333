-- Version 4: deliveries of events to webhooks.

-- One row per event and webhook, written in the transaction of the event. The body is sealed. There
-- is no foreign key to the webhook: a deletion of all its rows in one transaction would take long. A
-- background task deletes them.
CREATE TABLE deliveries (
    tenant           UUID NOT NULL,
    webhook          UUID NOT NULL,
    event            UUID NOT NULL,
    event_type       TEXT NOT NULL,
    occurred_at      BIGINT NOT NULL,
    -- 'pending', 'delivered' or 'exhausted'.
    state            TEXT NOT NULL,
    -- The time of the event, or of the last replay.
    pending_since    BIGINT NOT NULL,
    attempts         BIGINT NOT NULL,
    first_attempt_at BIGINT,
    last_attempt_at  BIGINT,
    -- Of a pending row: the time of the next attempt, or the end of the lease of the current one.
    next_at          BIGINT NOT NULL,
    last_status      BIGINT,
    last_error       TEXT,
    body             BYTEA NOT NULL,
    -- The id of an event begins with its time, so this is also the order of the events.
    PRIMARY KEY (tenant, webhook, event)
);

-- Sealed bytes cannot be compressed.
ALTER TABLE deliveries ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX deliveries_by_next_attempt ON deliveries (tenant, webhook, next_at, event) WHERE state = 'pending';
CREATE INDEX deliveries_by_age ON deliveries (tenant, webhook, pending_since) WHERE state = 'pending';
CREATE INDEX deliveries_by_success ON deliveries (tenant, webhook, last_attempt_at) WHERE state = 'delivered';

ALTER TABLE deliveries ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON deliveries USING (tenant::text = current_setting('scrip.tenant', true)
    OR current_setting('scrip.tenant', true) = 'all');

-- Events of 3DS sessions are deliveries now. Nothing has read the earlier rows.
DROP TABLE threeds_events;
DROP TABLE threeds_event_state;
