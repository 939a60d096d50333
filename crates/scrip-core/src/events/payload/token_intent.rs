//! The data of events of token intents.

use crate::{
    card::TokenType,
    events::{
        EventData,
        payload::{PayloadAttributes, token::describe_token_reference},
    },
    token::TokenIntentRecord,
    types::id::{TokenId, TokenIntentId},
};

/// `token-intent.created`. The fingerprint is left out as for tokens; a marked intent has none.
pub(crate) fn describe_intent(record: &TokenIntentRecord) -> EventData {
    let fingerprint = record.fingerprint.filter(|_| record.token_type != TokenType::Token);
    let intent = PayloadAttributes::with_id(record.id)
        .text("type", record.token_type.as_str())
        .optional_text("fingerprint", fingerprint)
        .text("created_by", record.created_by)
        .text("created_at", record.created_at)
        .text("expires_at", record.expires_at);
    EventData::new("token_intent", intent)
}

/// `token-intent.deleted`.
pub(crate) fn describe_deleted_intent(id: TokenIntentId) -> EventData {
    EventData::new("token_intent", PayloadAttributes::with_id(id))
}

/// `token-intent.converted`. The token has the type of the intent.
pub(crate) fn describe_converted_intent(
    intent: TokenIntentId,
    token_type: TokenType,
    token: &TokenId,
) -> EventData {
    let intent = PayloadAttributes::with_id(intent).text("type", token_type.as_str());
    EventData::new("token_intent", intent)
        .with("token", describe_token_reference(token, token_type))
}
