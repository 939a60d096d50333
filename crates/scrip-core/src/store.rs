//! What the vault needs kept. Engines implement this; they are not trusted with plaintext.

mod access_sessions;
mod answers;
mod audit;
mod directory;
mod events;
mod listing;
mod maintenance;
mod policy;
mod sessions;
mod stored_answer;
mod token_intents;
mod tokens;
mod usage;

use std::{fmt, future::Future, pin::Pin};

use scrip_seal::{Fingerprint, IndexDigest, Sealed};

use crate::{
    audit::AuditRecord,
    error::{Cause, Error},
    id::{ApplicationId, TokenId, TokenIntentId},
    idempotency::answer::AnswerRecord,
    policy::{PolicyRecords, PolicySeal, PolicyWrite, caller::Permit},
    time::Timestamp,
    token::{
        container::Containers, cvc::CvcRecord, disclosure::ExpressionMarks, token_type::TokenType,
    },
};

pub use self::{
    access_sessions::AccessSessionStore,
    answers::AnswerStore,
    audit::AuditStore,
    directory::DirectoryStore,
    events::EventStore,
    listing::ListingStore,
    maintenance::Maintenance,
    policy::PolicyStore,
    sessions::SessionStore,
    stored_answer::{AskedAnswer, Claim, Claimed, StoredAnswer, StoredPart},
    token_intents::TokenIntentStore,
    tokens::TokenStore,
    usage::UsageStore,
};
pub use crate::policy::guessing_budget::GuessStore;

pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Runs inside the transaction that it belongs to, once the outcome is known. What it gives is
/// committed with the effect; nothing, when this outcome is not one to remember.
pub type Render = Box<dyn FnOnce(&[Outcome]) -> Option<AnswerRecord> + Send>;

/// All that the vault stores. An engine implements the traits of the concerns, each in a file of
/// its own.
pub trait Store:
    TokenStore
    + ListingStore
    + TokenIntentStore
    + AnswerStore
    + DirectoryStore
    + PolicyStore
    + AccessSessionStore
    + SessionStore
    + EventStore
    + AuditStore
    + UsageStore
    + Maintenance
    + GuessStore
{
}

impl<T> Store for T where
    T: TokenStore
        + ListingStore
        + TokenIntentStore
        + AnswerStore
        + DirectoryStore
        + PolicyStore
        + AccessSessionStore
        + SessionStore
        + EventStore
        + AuditStore
        + UsageStore
        + Maintenance
        + GuessStore
{
}

/// Runs inside the transaction, on a tenant's policy as it is then.
pub type DecidePolicy = Box<dyn FnOnce(PolicyRecords) -> Result<PolicyEdit, Error> + Send>;

/// What a change of policy writes.
#[derive(Debug)]
pub struct PolicyEdit {
    pub writes: Vec<PolicyWrite>,
    pub seal: PolicySeal,
    pub written: Beside,
}

/// What commits beside an effect that is not a token's.
#[derive(Debug)]
pub struct Beside {
    pub audit: AuditRecord,
    pub entity: String,
    pub answer: Option<AnswerRecord>,
}

/// How late it was by a server's clock, and how late at least: a run whose clock was ahead must not
/// make the next one destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownTime {
    pub now: Timestamp,
    pub earliest: Timestamp,
}

/// How much of everything an engine holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatus {
    pub engine: &'static str,
    pub schema: u32,
    /// Versions of tenants' sealing keys, and how many tenants have each.
    pub key_versions: Vec<(u32, u64)>,
    /// Name and number, in an order to show them in.
    pub counts: Vec<(&'static str, u64)>,
    pub sizes_bytes: Vec<(&'static str, u64)>,
}

/// A token's row. What is not sealed is bound to what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: TokenId,
    pub token_type: TokenType,
    pub fingerprint: Option<Fingerprint>,
    pub expressions: ExpressionMarks,
    pub containers: Containers,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    pub modified: Option<Modified>,
    pub expires_at: Option<Timestamp>,
    /// Counts the updates.
    pub revision: i64,
    /// By which a search finds it: the digests of its search indexes and of its metadata.
    pub indexes: Vec<IndexDigest>,
    pub body: Sealed,
}

impl TokenRecord {
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|it| now < it)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modified {
    pub by: ApplicationId,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    pub record: TokenRecord,
    pub cvc: Option<CvcRecord>,
}

/// Writes of tokens that happen together or not at all.
pub struct TokenBatch {
    pub writes: Vec<TokenWrite>,
    pub render: Option<Render>,
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
    pub unless_named: Option<Timestamp>,
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
    Tell,
}

#[derive(Debug)]
pub enum CvcChange {
    Keep,
    Remove,
    Replace(CvcRecord),
}

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum Batched {
    /// One for each write, in their order.
    Written(Vec<Outcome>),
    /// Nothing was written: which of them met what.
    Refused(Vec<(usize, Obstacle)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    New,
    Updated,
    /// Another live token is what this one would have become; this write changed nothing.
    Existing(Box<StoredToken>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    IdTaken,
    /// Somebody else changed or removed it; look again.
    Stale,
    Duplicate(Box<StoredToken>),
    /// Somebody else converted or deleted it, or its time is over.
    IntentGone,
    /// A 3-D Secure session names the token of an [`UpdateToken`] that must not meet one.
    NamedBySession,
}

/// What became of a change to something that may have changed or gone meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Done,
    Stale,
}

/// To whoever asks a second time while the first is not answered yet.
pub(crate) const IN_FLIGHT: &str =
    "the first request with this idempotency key is still being processed";

#[derive(Debug)]
pub enum StoreError {
    /// Too many writes are waiting; nothing was done.
    Busy,
    /// Somebody else answered this request first, perhaps on another node; nothing was done.
    Answered,
    /// The engine did not answer. For a write nobody knows what became of it: ask again with the
    /// same idempotency key.
    Unavailable(Cause),
    /// The engine answered with something we could not have written.
    Corrupt(&'static str),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Unavailable("the write queue is full".into()),
            StoreError::Answered => Self::Conflict { reason: IN_FLIGHT },
            StoreError::Unavailable(cause) => Self::Unavailable(cause),
            StoreError::Corrupt(what) => Self::Internal(what.into()),
        }
    }
}

impl fmt::Debug for TokenBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenBatch({})", self.writes.len())
    }
}
