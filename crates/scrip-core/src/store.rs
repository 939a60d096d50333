//! What the vault needs kept. Engines implement this; they are not trusted with plaintext.

mod access_sessions;
mod answers;
mod session_cards;

use std::{fmt, future::Future, pin::Pin};

use scrip_seal::{Fingerprint, IndexDigest, Sealed};

use crate::{
    access_session::{AccessSessionId, AccessSessionRecord},
    answer::AnswerRecord,
    audit::{
        AuditRecord,
        chain::{Chain, Checkpoint, Head, Log, LogRecord, PruneChain},
        trail::Access,
        walk::{WalkRecords, Walked},
    },
    caller::{Inquiry, Mandate, Permit, TenantDeletion},
    container::Containers,
    cvc::CvcRecord,
    directory::{DirectoryRecords, SystemKeys},
    disclosure::ExpressionMarks,
    error::{Cause, Error},
    guessing_budget::GuessStore,
    id::{ApplicationId, SessionId, TenantId, TokenId, TokenIntentId},
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    measure::StoreMeasures,
    policy::{PolicyRecords, PolicySeal, PolicyWrite, Signed},
    threeds::{EventRecord, SessionRecord, SessionWrite},
    time::{Month, Timestamp},
    token_intent::StoredTokenIntent,
    token_type::TokenType,
    usage::Usage,
    vault_rows::{DeletedTenant, NotedTime},
};

pub use access_sessions::AccessSessionStore;
pub use answers::{AskedAnswer, Claim, Claimed, StoredAnswer, StoredPart};
pub use session_cards::SessionCardStore;

pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Runs inside the transaction that it belongs to, once the outcome is known. What it gives is
/// committed with the effect; nothing, when this outcome is not one to remember.
pub type Render = Box<dyn FnOnce(&[Outcome]) -> Option<AnswerRecord> + Send>;

/// Each method is one transaction. A method that needs two is two rules in one name.
pub trait Store: AccessSessionStore + GuessStore + SessionCardStore {
    /// Writes all of these or none of them, and says what became of each, or what stood in the way
    /// of which. A later one finds what an earlier one wrote.
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched>;

    /// A live token. Never waits for a writer.
    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>>;

    /// Those of these tokens that are live, each where its id stands, all as they were at one
    /// instant.
    fn find_tokens<'a>(
        &'a self,
        inquiry: Inquiry,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>>;

    /// A stretch of the tenant's tokens by container, then by creation, both descending.
    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing>;

    /// The newest tokens of some containers, for pages with totals.
    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed>;

    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()>;

    /// A live intent. Never waits for a writer.
    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>>;

    /// Deletes a live intent, with its cvc.
    fn delete_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Changed>;

    /// Deletes a live token if it still has the revision it was read with, and with it its cvc,
    /// its indexes and its data in remembered answers.
    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed>;

    /// Removes some of the tokens that had expired by then, each with a record of its own, which
    /// is this one; how many. Whoever else sweeps at the same time removes others.
    fn sweep_tokens(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize>;

    /// The same for token intents.
    fn sweep_token_intents(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize>;

    /// Erases some of the codes whose time was over by then; how many.
    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize>;

    /// Claims the right to answer a request with this idempotency key, or finds its answer.
    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed>;

    /// Forgets some of the answers older than `before`; how many.
    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize>;

    /// All of it, as it was at one instant.
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords>;

    /// Grows whenever the directory changes, whoever changes it.
    fn directory_version(&self) -> StoreFuture<'_, i64>;

    /// Comes back when another node tells of such a change, so that nobody has to wait until the
    /// version is looked at the next time. That it stays out says nothing: an engine on which nobody
    /// can be told never comes back.
    fn directory_changed(&self) -> StoreFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Keeps the keys of a new vault; refused when there are some.
    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()>;

    /// A new tenant: the operator's act, so no caller has to be permitted.
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()>;

    /// Changes a tenant's policy by what is decided inside the transaction, on the policy as it is
    /// then. [`Error::NotFound`] when the tenant is gone.
    fn change_policy(
        &self,
        mandate: Mandate,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>>;

    /// Deletes a tenant's keys, and with them the sense of all that they sealed, and its policy.
    /// The rows that make no sense any more are left to [`Store::purge_tenants`].
    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<Changed, Error>>;

    /// The tenants whose rows are to be purged, as the list says: its rows are not checked here.
    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>>;

    /// Removes some of the rows that these deleted tenants left; how many. Nothing of a tenant that
    /// has a row among the tenants.
    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize>;

    /// The earlier of this time and that of a clock which all nodes share, if there is one: a node
    /// whose own clock is ahead must not destroy what others still serve.
    fn not_after(&self, at: Timestamp) -> StoreFuture<'_, Timestamp> {
        Box::pin(std::future::ready(Ok(at)))
    }

    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()>;

    /// By its key's digest. The tenant is not known yet: the record says it.
    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<Signed<AccessSessionRecord>>>;

    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>>;

    /// Replaces a session that nobody has authorized yet.
    fn authorize_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, Changed>;

    /// Forgets some of the sessions that ended before this; how many.
    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize>;

    /// A new 3-D Secure session, with what is to be told of it.
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()>;

    /// A session that has not ended. Never waits for a writer.
    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>>;

    /// The same for somebody without a key: the record says whose it is.
    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>>;

    /// Replaces a session that still has the revision before this one's.
    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed>;

    /// Removes some of the sessions that had ended by then, each with a record; how many.
    fn sweep_sessions(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize>;

    /// Some of the events that wait to be delivered, in the order of their commits, behind this
    /// place; with each its own place.
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>>;

    /// Forgets some of the events older than this; how many.
    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize>;

    /// Writes down what is about to be shown, or was refused, in the access log; all of it, or
    /// nothing. On disk when this answers, and never behind a write to the vault.
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()>;

    /// Where every chain of a log ends.
    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>>;

    /// The same, and where each begins.
    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>>;

    /// Some of a tenant's records behind this number, in their order.
    fn list_records(
        &self,
        of: (Log, TenantId),
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>>;

    /// Up to where a chain was pruned; nothing when it never was.
    fn find_checkpoint(&self, of: (Log, TenantId)) -> StoreFuture<'_, Option<Checkpoint>>;

    /// Some of a tenant's records that meet a filter, the newest first. Never waits for a writer.
    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked>;

    /// Removes some of the first records of a chain, and writes the checkpoint that it then begins
    /// at; how many.
    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize>;

    /// How many tokens a tenant has and uses, without counting them now. Never waits for a writer.
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage>;

    /// Forgets some of which tokens were active in months before this one, and how many were in
    /// months that are a year older; how many rows.
    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize>;

    /// Remembers how late it is. A server's clock never goes back, so neither does this, unless the
    /// operator has put that clock right.
    fn note_time(&self, noted: NotedTime) -> StoreFuture<'_, ()>;

    /// What was noted last. It is not checked here.
    fn known_time(&self) -> StoreFuture<'_, Option<NotedTime>>;

    /// Whether a read and a write would be served now.
    fn check_ready(&self) -> StoreFuture<'_, ()>;

    /// What was counted so far. Cheap enough to be asked every second.
    fn measures(&self) -> StoreMeasures;

    /// For the operator: what there is, and how much of it.
    fn status(&self) -> StoreFuture<'_, StoreStatus>;
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

/// A new token; or a live one that [`DuplicateLookup`](crate::disclosure::DuplicateLookup) matches:
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
