//! A stored row with a value that a tenant's sealing key sealed, and its place.

use scrip_seal::{OpenError, Place, Purpose, Sealed, TenantKeys};
use uuid::Uuid;

use crate::{
    Timestamp,
    events::{WebhookKey, delivery},
    threeds::{ThreeDsSessionRecord, record as threeds_record},
    token::{TokenIntentRecord, TokenRecord, body, intent},
    types::id::{EventId, TenantId},
};

/// The key of a row within its tenant and table, which orders the rows of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowKey {
    /// The text of a token id, also if it is not valid: a pass must come past such a row.
    Token(String),
    TokenIntent(Uuid),
    ThreeDsSession(Uuid),
    Delivery {
        webhook: Uuid,
        event: Uuid,
    },
}

impl RowKey {
    /// The stored form.
    pub fn to_text(&self) -> String {
        match self {
            Self::Token(id) => id.clone(),
            Self::TokenIntent(id) | Self::ThreeDsSession(id) => id.to_string(),
            Self::Delivery { webhook, event } => format!("{webhook}/{event}"),
        }
    }

    /// `None` for text that the vault did not write.
    pub fn parse(table: RotatedTable, text: &str) -> Option<Self> {
        let parse_id = |text: &str| Uuid::try_parse(text).ok();
        Some(match table {
            RotatedTable::Tokens => Self::Token(text.to_owned()),
            RotatedTable::TokenIntents => Self::TokenIntent(parse_id(text)?),
            RotatedTable::ThreeDsSessions => Self::ThreeDsSession(parse_id(text)?),
            RotatedTable::Deliveries => {
                let (webhook, event) = text.split_once('/')?;
                Self::Delivery { webhook: parse_id(webhook)?, event: parse_id(event)? }
            }
        })
    }
}

/// The sealed event of a delivery, with the columns of its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedDelivery {
    pub key: WebhookKey,
    pub event: EventId,
    pub event_type: String,
    pub occurred_at: Timestamp,
    pub body: Sealed,
}

/// A row that a rotation seals again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SealedRow {
    Token(Box<TokenRecord>),
    TokenIntent(Box<TokenIntentRecord>),
    ThreeDsSession(Box<ThreeDsSessionRecord>),
    Delivery(Box<SealedDelivery>),
}

impl SealedRow {
    pub fn body(&self) -> &Sealed {
        match self {
            Self::Token(it) => &it.body,
            Self::TokenIntent(it) => &it.body,
            Self::ThreeDsSession(it) => &it.body,
            Self::Delivery(it) => &it.body,
        }
    }

    pub fn key(&self) -> RowKey {
        match self {
            Self::Token(it) => RowKey::Token(it.id.as_str().to_owned()),
            Self::TokenIntent(it) => RowKey::TokenIntent(it.id.0),
            Self::ThreeDsSession(it) => RowKey::ThreeDsSession(it.id.0),
            Self::Delivery(it) => RowKey::Delivery { webhook: it.key.webhook.0, event: it.event.0 },
        }
    }

    /// The associated data of the body, from the clear columns of the row.
    fn place(&self, tenant: TenantId) -> Place {
        match self {
            Self::Token(it) => body::body_place(tenant, it),
            Self::TokenIntent(it) => intent::body_place(tenant, it),
            Self::ThreeDsSession(it) => threeds_record::body_place(it),
            Self::Delivery(it) => {
                delivery::body_place(it.key, it.event, &it.event_type, it.occurred_at)
            }
        }
    }

    /// Seals the body again with the current version. `None` if that version sealed it.
    /// Errors: the row was altered.
    pub fn reseal(
        &self,
        keys: &TenantKeys,
        tenant: TenantId,
    ) -> Result<Option<ResealedRow>, OpenError> {
        let (body, version) = (self.body(), keys.current_version());
        let resealed = keys.reseal(version, Purpose::Data, &self.place(tenant), body)?;
        Ok(resealed.map(|new| ResealedRow { key: self.key(), old: body.clone(), new }))
    }
}

/// A row with a newly sealed body. It replaces the old body only if no client has written the row
/// since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResealedRow {
    pub key: RowKey,
    pub old: Sealed,
    pub new: Sealed,
}

/// Some rows of a table in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SealedRows {
    pub rows: Vec<SealedRow>,
    /// Rows that cannot be decoded, so the vault did not write them.
    pub undecoded: u64,
    /// The key of the last row, also if it cannot be decoded; `None` at the end of the table.
    pub last: Option<RowKey>,
}

words! {
    /// A table with sealed rows that a rotation seals again, in the order of a pass.
    pub enum RotatedTable {
        Tokens = "tokens",
        TokenIntents = "token_intents",
        ThreeDsSessions = "threeds_sessions",
        Deliveries = "deliveries",
    }
}

impl RotatedTable {
    /// The table after this one in a pass.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::ALL.into_iter().skip_while(|it| *it != self).nth(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_keys_survive_their_stored_form() {
        let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let cases = [
            (RotatedTable::Tokens, RowKey::Token("a/b".to_owned())),
            (RotatedTable::TokenIntents, RowKey::TokenIntent(first)),
            (RotatedTable::ThreeDsSessions, RowKey::ThreeDsSession(second)),
            (RotatedTable::Deliveries, RowKey::Delivery { webhook: first, event: second }),
        ];
        for (table, key) in cases {
            assert_eq!(RowKey::parse(table, &key.to_text()), Some(key));
        }
        for table in [RotatedTable::TokenIntents, RotatedTable::Deliveries] {
            assert_eq!(RowKey::parse(table, "x"), None);
        }
    }
}
