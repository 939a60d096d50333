//! Rows that are committed together with a change.

use crate::{audit::AuditRecord, events::NewDelivery, idempotency::IdempotencyRecord};

/// Rows that are committed with a change of an entity that is not a token.
#[derive(Debug)]
pub struct CommitExtras {
    pub audit: AuditRecord,
    pub entity: String,
    pub idempotency: Option<IdempotencyRecord>,
    /// The deliveries of the events of the change.
    pub deliveries: Vec<NewDelivery>,
}

/// The outcome of a change of an entity that another request may have changed or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeOutcome {
    Done,
    /// Another request changed or deleted the entity first; nothing was written.
    Stale,
}
