-- Version 7: deliveries of the events of reads, until a background task moves them to the vault. A
-- read must not wait for the writer of the vault.
CREATE TABLE read_deliveries (
    seq         INTEGER PRIMARY KEY,
    tenant      BLOB NOT NULL,
    webhook     BLOB NOT NULL,
    event       BLOB NOT NULL,
    event_type  TEXT NOT NULL,
    occurred_at INTEGER NOT NULL,
    body        BLOB NOT NULL
) STRICT;
