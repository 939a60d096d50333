//! Writes of tokens: planned, evaluated, sealed, and handed to the store as a batch.

use std::fmt;

use crate::{
    audit::AuditRecord,
    id::{TokenId, TokenIntentId},
    idempotency::IdempotencyRecord,
    policy::Permit,
    time::Timestamp,
    token::{CvcRecord, StoredToken, TokenRecord},
};

pub(crate) mod batch;
pub(crate) mod conversion;
pub(crate) mod patch;
pub(crate) mod pending_token;

/// Runs inside the transaction that it belongs to, once the outcome is known. What it gives is
/// committed with the effect; nothing, when this outcome is not one to remember.
pub type BuildIdempotencyRecord =
    Box<dyn FnOnce(&[WriteOutcome]) -> Option<IdempotencyRecord> + Send>;

/// Writes of tokens that happen together or not at all.
pub struct TokenBatch {
    pub writes: Vec<TokenWrite>,
    pub build_record: Option<BuildIdempotencyRecord>,
}

/// One token of a batch. Each brings the proof that it is allowed.
#[derive(Debug)]
pub enum TokenWrite {
    Insert(InsertToken),
    Update(UpdateToken),
}

/// A new token; or a live one that [`DuplicateLookup`](crate::token::disclosure::DuplicateLookup) matches:
/// the longest-lived, then the oldest.
#[derive(Debug)]
pub struct InsertToken {
    pub permit: Permit,
    pub token: StoredToken,
    /// The intent that it is made of, and that ends with this write.
    pub intent: Option<TokenIntentId>,
    pub deduplicate: Deduplicate,
    pub audit: AuditRecord,
}

/// Replaces a live token if it still has the revision it was read with.
#[derive(Debug)]
pub struct UpdateToken {
    pub permit: Permit,
    pub token: TokenRecord,
    pub cvc: CvcChange,
    /// As for an insert.
    pub intent: Option<TokenIntentId>,
    pub deduplicate: Deduplicate,
    /// Refused if a 3-D Secure session that lives then names the token.
    pub reject_if_in_session_at: Option<Timestamp>,
    pub audit: AuditRecord,
}

#[derive(Debug)]
pub struct DeleteToken {
    pub id: TokenId,
    pub revision: i64,
    pub audit: AuditRecord,
}

/// What becomes of a write that would make a second token of the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deduplicate {
    /// Nobody looks.
    No,
    /// The one that is there takes its place.
    Yes,
    /// It stands in the way: whoever asked is told of it and decides.
    ReportExisting,
}

#[derive(Debug)]
pub enum CvcChange {
    Keep,
    Remove,
    Replace(CvcRecord),
}

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// One for each write, in their order.
    Written(Vec<WriteOutcome>),
    /// Nothing was written: which of them met what.
    Rejected(Vec<(usize, WriteConflict)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    New,
    Updated,
    /// Another live token is what this one would have become; this write changed nothing.
    Existing(Box<StoredToken>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteConflict {
    IdTaken,
    /// Somebody else changed or removed it; look again.
    Stale,
    Duplicate(Box<StoredToken>),
    /// Somebody else converted or deleted it, or its time is over.
    IntentMissing,
    /// A 3-D Secure session names the token of an [`UpdateToken`] that must not meet one.
    UsedBySession,
}

impl fmt::Debug for TokenBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenBatch({})", self.writes.len())
    }
}
