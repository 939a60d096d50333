//! What one request saw, or was refused.

use crate::{
    audit::{AuditRecord, seen},
    card::holds_number,
    id::TenantId,
    policy::Transform,
    time::{Month, Timestamp},
    token::{TokenRecord, TokenView},
};

/// What one request saw, or was refused: one record for each entity, in one transaction.
#[derive(Debug)]
pub struct Access {
    pub tenant: TenantId,
    pub audit: AuditRecord,
    pub seen: Vec<Seen>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Nothing where there is none to name.
    pub entity: String,
    pub outcome: &'static str,
    /// When the token was made that was read: see [`Access::active`].
    pub created_at: Option<Timestamp>,
}

impl Access {
    /// The month in which an older token was read. One that was made in it is counted already.
    #[must_use]
    pub fn active(&self, seen: &Seen) -> Option<Month> {
        seen.created_at.and_then(|it| active(it, self.audit.at))
    }
}

/// The month of a use, when the token is from before it.
#[must_use]
pub fn active(created_at: Timestamp, used_at: Timestamp) -> Option<Month> {
    let month = Month::of(used_at);
    (Month::of(created_at) < month).then_some(month)
}

impl Seen {
    pub fn new(entity: impl Into<String>, outcome: &'static str) -> Self {
        Self { entity: entity.into(), outcome, created_at: None }
    }

    /// A token that is about to be shown by itself. To be in a list does not make it active.
    #[must_use]
    pub fn token(record: &TokenRecord, transform: Transform) -> Self {
        let created_at = Some(record.created_at);
        Self { created_at, ..Self::new(record.id.as_str(), seen(transform)) }
    }

    /// For a text that a client made up: one with a number in it that could be a card's is not
    /// written down.
    #[must_use]
    pub fn named(entity: &str, outcome: &'static str) -> Self {
        Self::new(if holds_number(entity) { "" } else { entity }, outcome)
    }
}

impl Seen {
    /// A list is one record: where it looked, and the most that it shows of any token.
    #[must_use]
    pub fn list(container: &str, tokens: &[TokenView]) -> Self {
        let shown = tokens.iter().filter_map(|it| it.detail.as_ref());
        let most = shown.map(|it| it.shown.transform).max();
        Self::named(container, most.map_or("empty", seen))
    }
}
