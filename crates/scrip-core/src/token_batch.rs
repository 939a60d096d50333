//! Token writes that a store commits together: the writes of a batch, their conditions and
//! outcomes.

use std::fmt;

use scrip_seal::{Fingerprint, IndexDigest};

use crate::{
    FieldError, Timestamp,
    audit::AuditRecord,
    card::TokenType,
    disclosure::Deduplicate,
    events::{EventSource, NewDelivery, payload},
    idempotency::IdempotencyRecord,
    policy::Permit,
    token::{CvcRecord, StoredToken, TokenRecord},
    types::{
        EventType, Operation,
        id::{TokenId, TokenIntentId},
    },
};

/// Builds the idempotency record inside the transaction, when the outcome of the write is known.
/// The record is committed with the write. `None` when this outcome is not stored.
pub type BuildIdempotencyRecord =
    Box<dyn FnOnce(&[WriteOutcome]) -> Option<IdempotencyRecord> + Send>;

/// Token writes that are committed together or not at all.
pub struct TokenBatch {
    pub writes: Vec<TokenWrite>,
    pub build_record: Option<BuildIdempotencyRecord>,
}

/// One write of a batch, with the permit for it.
#[derive(Debug)]
pub enum TokenWrite {
    Insert(InsertToken),
    Update(UpdateToken),
}

/// A property by which tokens can be searched. Each facet of a record is an entry of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facet {
    Type(TokenType),
    Fingerprint(Fingerprint),
    Index(IndexDigest),
}

impl Facet {
    /// All facets of a record.
    pub fn all_for_record(record: &TokenRecord) -> impl Iterator<Item = Self> {
        let type_facet = Self::Type(record.token_type);
        let fingerprint_facet = record.fingerprint.map(Self::Fingerprint);
        let index_facets = record.indexes.iter().copied().map(Self::Index);
        std::iter::once(type_facet).chain(fingerprint_facet).chain(index_facets)
    }

    pub fn matches(&self, record: &TokenRecord) -> bool {
        match self {
            Self::Type(token_type) => record.token_type == *token_type,
            Self::Fingerprint(fingerprint) => record.fingerprint == Some(*fingerprint),
            Self::Index(digest) => record.indexes.contains(digest),
        }
    }
}

/// The maximum number of index entries of a token: one for each container and each of type,
/// fingerprint, search indexes and metadata. An update of them deletes and inserts as many rows, and
/// the writes of all tenants wait for it.
const INDEX_ENTRIES_MAX: usize = 500;

pub(crate) fn count_index_entries(record: &TokenRecord) -> usize {
    Facet::all_for_record(record).count().saturating_mul(record.containers.iter().count())
}

/// Checks the index entries of a token. One of an earlier version may keep as many as it has.
/// Errors: there are too many.
pub(crate) fn check_index_entries(
    record: &TokenRecord,
    count_before: usize,
) -> Result<(), FieldError> {
    if count_index_entries(record) > count_before.max(INDEX_ENTRIES_MAX) {
        let rule = "times the search indexes and metadata attributes must be at most 500";
        return Err(FieldError::new("containers", rule));
    }
    Ok(())
}

impl TokenWrite {
    /// The number of rows that the transaction writes: token, audit record, index entries, and
    /// webhook deliveries. An update also deletes index entries.
    pub(crate) fn row_count(&self) -> usize {
        let (entries, events) = match self {
            Self::Insert(it) => (count_index_entries(&it.token.record), &it.events),
            Self::Update(it) => (count_index_entries(&it.token).saturating_mul(2), &it.events),
        };
        entries.saturating_add(events.written.len()).saturating_add(2)
    }

    /// The bytes of its webhook deliveries.
    pub(crate) fn delivery_bytes(&self) -> usize {
        let events = match self {
            Self::Insert(it) => &it.events,
            Self::Update(it) => &it.events,
        };
        let bytes = events.written.iter().map(|it| it.body.as_bytes().len());
        bytes.fold(0, usize::saturating_add)
    }

    /// The intent that becomes this token.
    pub fn intent(&self) -> Option<TokenIntentId> {
        match self {
            Self::Insert(it) => it.intent,
            Self::Update(it) => it.intent,
        }
    }
}

/// Inserts a new token, or uses a live token that
/// [`DuplicateLookup`](crate::disclosure::DuplicateLookup) matches. Of several matches, the
/// one that expires last wins; then the oldest.
#[derive(Debug)]
pub struct InsertToken {
    pub permit: Permit,
    pub token: StoredToken,
    /// The intent that becomes this token. The write deletes it.
    pub intent: Option<TokenIntentId>,
    pub deduplicate: Deduplicate,
    pub audit: AuditRecord,
    pub events: TokenEvents,
}

/// Replaces a live token if it still has the revision that was read.
#[derive(Debug)]
pub struct UpdateToken {
    pub permit: Permit,
    pub token: TokenRecord,
    pub cvc: CvcChange,
    /// As in [`InsertToken`].
    pub intent: Option<TokenIntentId>,
    pub deduplicate: Deduplicate,
    /// The write is rejected if a 3-D Secure session that is live at this time uses the token.
    pub reject_if_in_session_at: Option<Timestamp>,
    pub audit: AuditRecord,
    pub events: TokenEvents,
}

#[derive(Debug)]
pub struct DeleteToken {
    pub id: TokenId,
    pub revision: i64,
    pub audit: AuditRecord,
    /// The deliveries of `token.deleted`.
    pub deliveries: Vec<NewDelivery>,
}

#[derive(Debug)]
pub enum CvcChange {
    Keep,
    Remove,
    Replace(CvcRecord),
}

/// The outcome of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// One outcome for each write, in the same order.
    Written(Vec<WriteOutcome>),
    /// Nothing was written. Each conflict has the index of its write.
    Rejected(Vec<(usize, WriteConflict)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    New,
    Updated,
    /// An equal live token exists; this write changed nothing.
    Existing(Box<StoredToken>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteConflict {
    IdTaken,
    /// Another request changed or deleted the token; read it again.
    Stale,
    Duplicate(Box<StoredToken>),
    /// Another request converted or deleted the intent, or it expired.
    IntentMissing,
    /// A 3-D Secure session uses the token, and the [`UpdateToken`] does not allow that.
    UsedBySession,
}

impl fmt::Debug for TokenBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenBatch({})", self.writes.len())
    }
}

impl TokenWrite {
    /// The deliveries of this write, after its outcome is known.
    pub fn deliveries(&self, outcome: &WriteOutcome) -> Vec<NewDelivery> {
        let (permit, intent, record, events, audit) = match self {
            Self::Insert(InsertToken { permit, intent, token, events, audit, .. }) => {
                (permit, intent, &token.record, events, audit)
            }
            Self::Update(UpdateToken { permit, intent, token, events, audit, .. }) => {
                (permit, intent, token, events, audit)
            }
        };
        let (mut deliveries, record) = match outcome {
            WriteOutcome::New | WriteOutcome::Updated => (events.written.clone(), record),
            WriteOutcome::Existing(existing) => (Vec::new(), &existing.record),
        };
        if let Some(intent) = intent {
            let source = EventSource::new(permit.tenant(), audit, events.fill_random);
            deliveries.extend(source.raise(EventType::TokenIntentConverted, || {
                let (token_type, token) = (record.token_type, &record.id);
                payload::token::describe_converted_intent(*intent, token_type, token)
            }));
        }
        deliveries
    }
}

impl InsertToken {
    /// The deliveries of the expiry of an earlier token with the id of the new one.
    pub fn expiry_deliveries(&self, id: &TokenId) -> Vec<NewDelivery> {
        let audit = self.audit.to_vault_record(Operation::ExpireToken);
        EventSource::new(self.permit.tenant(), &audit, self.events.fill_random)
            .raise(EventType::TokenExpired, || payload::token::describe_deleted_token(id))
    }
}

/// The events of a token write. Some depend on the outcome and are built inside the transaction.
#[derive(Debug)]
pub struct TokenEvents {
    /// The deliveries of `token.created` or `token.updated`: written unless an existing token is the
    /// outcome.
    pub written: Vec<NewDelivery>,
    pub fill_random: fn(&mut [u8]),
}
