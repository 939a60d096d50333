//! The idempotency record of a write, before its outcome is known.

use std::panic::{AssertUnwindSafe, catch_unwind};

use scrip_core::{
    idempotency::IdempotencyRecord,
    token_batch::{BuildIdempotencyRecord, WriteOutcome},
    types::StoreError,
};

use crate::postgres::engine::error::unavailable;

/// The idempotency record of a write. It is built once, from the first outcome of the write.
pub(crate) enum PendingIdempotencyRecord {
    None,
    NotBuilt(BuildIdempotencyRecord),
    Built(Vec<WriteOutcome>, Option<IdempotencyRecord>),
    /// Building the record panicked.
    Panicked,
}

impl PendingIdempotencyRecord {
    pub(crate) fn new(build_record: Option<BuildIdempotencyRecord>) -> Self {
        build_record.map_or(Self::None, Self::NotBuilt)
    }

    /// Returns the record for these outcomes and builds it at the first call. A write that is
    /// retried after a rollback may have another outcome. Then the error is `Busy`, and the client
    /// retries.
    pub(crate) fn build_for(
        &mut self,
        outcomes: &[WriteOutcome],
    ) -> Result<Option<&IdempotencyRecord>, StoreError> {
        if let Self::NotBuilt(_) = self
            && let Self::NotBuilt(build_record) = std::mem::replace(self, Self::Panicked)
            // A panic must not affect the other writes of the group.
            && let Ok(record) = catch_unwind(AssertUnwindSafe(|| build_record(outcomes)))
        {
            *self = Self::Built(outcomes.to_vec(), record);
        }
        match self {
            Self::None => Ok(None),
            Self::Built(built_outcomes, record) if built_outcomes.as_slice() == outcomes => {
                Ok(record.as_ref())
            }
            Self::Built(..) => Err(StoreError::Busy),
            Self::NotBuilt(_) | Self::Panicked => Err(unavailable("building the response failed")),
        }
    }
}
