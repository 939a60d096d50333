//! The events of a token write.

use crate::{
    audit::Operation,
    event::{EventSource, EventType, NewDelivery, payload},
    id::TokenId,
    token::{InsertToken, TokenWrite, UpdateToken, WriteOutcome},
};

/// The events of a token write. Some depend on the outcome and are built inside the transaction.
#[derive(Debug)]
pub struct TokenEvents {
    /// The deliveries of `token.created` or `token.updated`: written unless an existing token is the
    /// outcome.
    pub written: Vec<NewDelivery>,
    pub fill_random: fn(&mut [u8]),
}

impl TokenWrite {
    /// The deliveries of this write, after its outcome is known.
    #[must_use]
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
                payload::token_intent::describe_converted_intent(*intent, token_type, token)
            }));
        }
        deliveries
    }
}

impl InsertToken {
    /// The deliveries of the expiry of an earlier token with the id of the new one.
    #[must_use]
    pub fn expiry_deliveries(&self, id: &TokenId) -> Vec<NewDelivery> {
        let audit = self.audit.to_vault_record(Operation::ExpireToken);
        EventSource::new(self.permit.tenant(), &audit, self.events.fill_random)
            .raise(EventType::TokenExpired, || payload::token::describe_deleted_token(id))
    }
}
