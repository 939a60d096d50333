-- Version 7: deliveries of events to webhooks.

-- One row per event and webhook, written in the transaction of the event. The body is sealed. There
-- is no foreign key to the webhook: a deletion of all its rows in one transaction would hold the
-- writer. A background task deletes them.
CREATE TABLE deliveries (
    seq              INTEGER PRIMARY KEY,
    tenant           BLOB NOT NULL,
    webhook          BLOB NOT NULL,
    event            BLOB NOT NULL,
    event_type       TEXT NOT NULL,
    occurred_at      INTEGER NOT NULL,
    -- 'pending', 'delivered' or 'exhausted'.
    state            TEXT NOT NULL,
    -- The time of the event, or of the last replay.
    pending_since    INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    first_attempt_at INTEGER,
    last_attempt_at  INTEGER,
    -- Of a pending row: the time of the next attempt, or the end of the lease of the current one.
    next_at          INTEGER NOT NULL,
    last_status      INTEGER,
    last_error       TEXT,
    body             BLOB NOT NULL
) STRICT;

-- The id of an event begins with its time, so this is also the order of the events.
CREATE UNIQUE INDEX deliveries_by_event ON deliveries (tenant, webhook, event);
CREATE INDEX deliveries_by_next_attempt ON deliveries (tenant, webhook, next_at, event) WHERE state = 'pending';
CREATE INDEX deliveries_by_age ON deliveries (tenant, webhook, pending_since) WHERE state = 'pending';
CREATE INDEX deliveries_by_success ON deliveries (tenant, webhook, last_attempt_at) WHERE state = 'delivered';

-- Events of 3DS sessions are deliveries now. Nothing has read the earlier rows.
DROP TABLE threeds_events;
DROP TABLE threeds_event_state;
