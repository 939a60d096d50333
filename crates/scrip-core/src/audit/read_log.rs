//! What one request saw, or was refused.

use crate::{
    audit::{AuditRecord, read_outcome},
    card::contains_card_number,
    id::TenantId,
    policy::Transform,
    time::{Month, Timestamp},
    token::{TokenRecord, TokenView},
};

/// What one request saw, or was refused: one record for each entity, in one transaction.
#[derive(Debug)]
pub struct ReadLogBatch {
    pub tenant: TenantId,
    pub audit: AuditRecord,
    pub entries: Vec<ReadLogEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadLogEntry {
    /// Nothing where there is none to name.
    pub entity: String,
    pub outcome: &'static str,
    /// When the token was made that was read: see [`Access::active`].
    pub created_at: Option<Timestamp>,
}

impl ReadLogBatch {
    /// The month in which an older token was read. One that was made in it is counted already.
    #[must_use]
    pub fn active_month(&self, entry: &ReadLogEntry) -> Option<Month> {
        entry.created_at.and_then(|it| active_month(it, self.audit.at))
    }
}

/// The month of a use, when the token is from before it.
#[must_use]
pub fn active_month(created_at: Timestamp, used_at: Timestamp) -> Option<Month> {
    let month = Month::from_timestamp(used_at);
    (Month::from_timestamp(created_at) < month).then_some(month)
}

impl ReadLogEntry {
    pub fn new(entity: impl Into<String>, outcome: &'static str) -> Self {
        Self { entity: entity.into(), outcome, created_at: None }
    }

    /// A token that is about to be shown by itself. To be in a list does not make it active.
    #[must_use]
    pub fn for_token(record: &TokenRecord, transform: Transform) -> Self {
        let created_at = Some(record.created_at);
        Self { created_at, ..Self::new(record.id.as_str(), read_outcome(transform)) }
    }

    /// For a text that a client made up: one with a number in it that could be a card's is not
    /// written down.
    #[must_use]
    pub fn for_client_text(entity: &str, outcome: &'static str) -> Self {
        Self::new(if contains_card_number(entity) { "" } else { entity }, outcome)
    }
}

impl ReadLogEntry {
    /// A list is one record: where it looked, and the most that it shows of any token.
    #[must_use]
    pub fn for_token_list(container: &str, tokens: &[TokenView]) -> Self {
        let shown = tokens.iter().filter_map(|it| it.detail.as_ref());
        let most = shown.map(|it| it.visible.transform).max();
        Self::for_client_text(container, most.map_or("empty", read_outcome))
    }
}
