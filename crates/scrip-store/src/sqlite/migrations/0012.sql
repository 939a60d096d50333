-- Version 12: dual control.

-- Whether actions of operators need a second operator, and the MACs of the open requests. Without
-- this row, dual control was never on.
CREATE TABLE dual_control (
    singleton  INTEGER PRIMARY KEY CHECK (singleton = 1),
    is_on      INTEGER NOT NULL,
    sequence   INTEGER NOT NULL,
    members    BLOB NOT NULL,
    changed_at INTEGER NOT NULL,
    mac        BLOB NOT NULL
) STRICT;

-- Requests of operators. A used request is deleted, and its MAC is removed from dual_control.
CREATE TABLE approvals (
    id           TEXT NOT NULL PRIMARY KEY,
    action       TEXT NOT NULL,
    requested_by INTEGER NOT NULL,
    requested_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    approved_by  INTEGER,
    approved_at  INTEGER,
    mac          BLOB NOT NULL
) STRICT, WITHOUT ROWID;
