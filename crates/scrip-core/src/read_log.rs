//! The read-log entries of one request.

use std::borrow::Cow;

use crate::{
    Timestamp,
    audit::{AuditRecord, read_outcome},
    card::contains_card_number,
    events::NewDelivery,
    token::{TokenRecord, TokenView},
    types::{Operation, Transform, id::TenantId, time::Month},
};

/// The reads or rejections of one request: one entry for each entity, in one transaction.
#[derive(Debug, Clone)]
pub struct ReadLogBatch {
    pub tenant: TenantId,
    /// Operation, actor, origin and time. Some entries have their own operation.
    pub audit: AuditRecord,
    pub entries: Vec<ReadLogEntry>,
    /// The deliveries of the events of the request.
    pub deliveries: Vec<NewDelivery>,
}

/// One entity of a request, and the outcome for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadLogEntry {
    /// Empty if there is no entity to name.
    pub entity: String,
    pub outcome: &'static str,
    /// The creation time of a token that the read makes active: see [`ReadLogBatch::active_month`].
    pub created_at: Option<Timestamp>,
    /// The operation of this entry, if it differs from the batch: the operation of a record
    /// determines the type of its entity.
    pub operation: Option<Operation>,
}

impl ReadLogBatch {
    /// The month in which the read makes a token active. `None` for a token created in the same
    /// month, because the usage already counts it.
    pub fn active_month(&self, entry: &ReadLogEntry) -> Option<Month> {
        entry.created_at.and_then(|it| active_month(it, self.audit.at))
    }

    /// The audit record of an entry.
    pub fn entry_audit(&self, entry: &ReadLogEntry) -> Cow<'_, AuditRecord> {
        match entry.operation {
            None => Cow::Borrowed(&self.audit),
            Some(operation) => Cow::Owned(self.audit.with_operation(operation)),
        }
    }
}

/// The month of `used_at`, if the token was created in an earlier month.
pub fn active_month(created_at: Timestamp, used_at: Timestamp) -> Option<Month> {
    let month = Month::from_timestamp(used_at);
    (Month::from_timestamp(created_at) < month).then_some(month)
}

impl ReadLogEntry {
    pub fn new(entity: impl Into<String>, outcome: &'static str) -> Self {
        Self { entity: entity.into(), outcome, created_at: None, operation: None }
    }

    /// An entry for a single token in a response. Lists do not make a token active.
    pub fn for_token(record: &TokenRecord, transform: Transform) -> Self {
        let created_at = Some(record.created_at);
        Self { created_at, ..Self::new(record.id.as_str(), read_outcome(transform)) }
    }

    /// An entry with a text from a client as its entity. If the text may contain a card number, the
    /// entry has an empty entity instead.
    pub(crate) fn for_client_text(entity: &str, outcome: &'static str) -> Self {
        Self::new(if contains_card_number(entity) { "" } else { entity }, outcome)
    }
}

impl ReadLogEntry {
    /// One entry for a whole list. Its entity is the scanned container. Its outcome is of the token
    /// that the response shows most of: `revealed` before `masked` before `redacted`; `empty` if
    /// the response shows no token.
    pub(crate) fn for_token_list(container: &str, tokens: &[TokenView]) -> Self {
        let details = tokens.iter().filter_map(|it| it.detail.as_ref());
        let transform = details.map(|it| it.visible.transform).max();
        Self::for_client_text(container, transform.map_or("empty", read_outcome))
    }
}
