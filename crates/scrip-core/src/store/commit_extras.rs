//! What commits together with an effect.

use crate::{audit::AuditRecord, idempotency::IdempotencyRecord};

/// What commits beside an effect that is not a token's.
#[derive(Debug)]
pub struct CommitExtras {
    pub audit: AuditRecord,
    pub entity: String,
    pub idempotency: Option<IdempotencyRecord>,
}

/// What became of a change to something that may have changed or gone meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeOutcome {
    Done,
    Stale,
}
