//! What commits together with an effect.

use crate::{audit::AuditRecord, idempotency::AnswerRecord};

/// What commits beside an effect that is not a token's.
#[derive(Debug)]
pub struct Beside {
    pub audit: AuditRecord,
    pub entity: String,
    pub answer: Option<AnswerRecord>,
}
