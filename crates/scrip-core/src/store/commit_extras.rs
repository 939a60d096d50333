//! What commits together with an effect.

use crate::{audit::AuditRecord, idempotency::AnswerRecord};

/// What commits beside an effect that is not a token's.
#[derive(Debug)]
pub struct Beside {
    pub audit: AuditRecord,
    pub entity: String,
    pub answer: Option<AnswerRecord>,
}

/// What became of a change to something that may have changed or gone meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Done,
    Stale,
}
