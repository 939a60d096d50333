-- Version 9: dual control.

-- Whether actions of operators need a second operator, and the MACs of the open requests. Without
-- this row, dual control was never on.
CREATE TABLE dual_control (
    singleton  INTEGER PRIMARY KEY CHECK (singleton = 1),
    is_on      BIGINT NOT NULL,
    sequence   BIGINT NOT NULL,
    members    BYTEA NOT NULL,
    changed_at BIGINT NOT NULL,
    mac        BYTEA NOT NULL
);

-- Requests of operators. A used request is deleted, and its MAC is removed from dual_control.
CREATE TABLE approvals (
    id           TEXT PRIMARY KEY,
    action       TEXT NOT NULL,
    requested_by BIGINT NOT NULL,
    requested_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    approved_by  BIGINT,
    approved_at  BIGINT,
    mac          BYTEA NOT NULL
);
