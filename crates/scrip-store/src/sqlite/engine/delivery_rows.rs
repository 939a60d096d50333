//! The statements that insert deliveries of events.

/// A new delivery is due at once.
pub(crate) const INSERT_DELIVERY: &str = "
-- insert_delivery
INSERT INTO deliveries (tenant, webhook, event, event_type, occurred_at, body, state, pending_since,
    attempts, next_at)
VALUES ($1, $2, $3, $4, $5, $6, 'pending', $5, 0, $5)";

/// The row exists already if the process stopped after an earlier copy.
pub(crate) const COPY_DELIVERY: &str = "
-- copy_delivery
INSERT INTO deliveries (tenant, webhook, event, event_type, occurred_at, body, state, pending_since,
    attempts, next_at)
VALUES ($1, $2, $3, $4, $5, $6, 'pending', $5, 0, $5)
ON CONFLICT (tenant, webhook, event) DO NOTHING";

pub(crate) const STATEMENTS: &[&str] = &[INSERT_DELIVERY, COPY_DELIVERY];
