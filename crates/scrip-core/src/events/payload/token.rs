//! The data of events of tokens and token intents.

use serde_json::Value;

use crate::{
    card::TokenType,
    events::{EventData, payload::PayloadAttributes},
    token::{TokenBody, TokenIntentRecord, TokenRecord},
    types::id::{TokenId, TokenIntentId},
};

/// `token.created` and `token.updated`. Data and mask are left out, and so is everything that is
/// computed from the data, except the fingerprint.
///
/// Text of type `token` and of hosted fields has no fingerprint in an event: with a public API key,
/// its reader could compare guesses with it.
pub fn describe_token(record: &TokenRecord, body: &TokenBody) -> EventData {
    let token_type = record.token_type;
    let containers: Vec<_> = record.containers.iter().map(|it| Value::from(it.as_str())).collect();
    let is_hidden = body.is_marked || token_type == TokenType::Token;
    let fingerprint = record.fingerprint.filter(|_| !is_hidden);
    let fingerprint_expression = fingerprint.map(|_| {
        let expression = body.fingerprint_expression.as_deref();
        expression.unwrap_or_else(|| token_type.default_fingerprint_expression())
    });
    let mut token = PayloadAttributes::with_id(record.id.as_str())
        .text("type", token_type.as_str())
        .value("containers", containers)
        .optional_text("fingerprint", fingerprint)
        .optional_text("fingerprint_expression", fingerprint_expression)
        .text("created_by", record.created_by)
        .text("created_at", record.created_at)
        .optional_text("modified_by", record.modified.map(|it| it.by))
        .optional_text("modified_at", record.modified.map(|it| it.at))
        .optional_text("expires_at", record.expires_at);
    if let Some(metadata) = &body.metadata {
        let entries = metadata.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        token = token.value("metadata", Value::Object(entries.collect()));
    }
    let indexes = body.search_indexes.as_deref().unwrap_or_else(|| token_type.default_indexes());
    if !indexes.is_empty() {
        token = token.value("search_indexes", indexes.to_vec());
    }
    EventData::new("token", token)
}

/// `token.deleted` and `token.expired`.
pub fn describe_deleted_token(id: &TokenId) -> EventData {
    EventData::new("token", PayloadAttributes::with_id(id.as_str()))
}

/// `token.property.expired`: the CVC of a token was erased, for example.
pub(crate) fn describe_expired_property(id: &TokenId, property_name: &'static str) -> EventData {
    let token = PayloadAttributes::with_id(id.as_str()).text("property_name", property_name);
    EventData::new("token", token)
}

/// `token.read`.
pub(crate) fn describe_token_read(id: &TokenId, token_type: TokenType) -> EventData {
    EventData::new("token", describe_token_reference(id, token_type))
}

pub(super) fn describe_token_reference(id: &TokenId, token_type: TokenType) -> PayloadAttributes {
    PayloadAttributes::with_id(id.as_str()).text("type", token_type.as_str())
}

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

#[cfg(test)]
mod tests {
    use scrip_seal::{Fingerprint, Sealed};

    use super::*;
    use crate::{
        Timestamp,
        token::ExpressionProvenance,
        types::{Containers, id::ApplicationId},
    };

    #[track_caller]
    fn check(token_type: TokenType, is_marked: bool, has_fingerprint: bool) {
        let record = TokenRecord {
            id: TokenId::parse("customer-7").unwrap(),
            token_type,
            fingerprint: Some(Fingerprint([1; 32])),
            expressions: ExpressionProvenance::default(),
            containers: Containers::parse(["/a/"]).unwrap(),
            created_by: ApplicationId(uuid::Uuid::nil()),
            created_at: Timestamp { unix_ms: 1 },
            modified: None,
            expires_at: None,
            revision: 0,
            indexes: Vec::new(),
            body: Sealed::from_stored(Vec::new()),
        };
        let body = TokenBody { is_marked, ..TokenBody::default() };
        let attributes = describe_token(&record, &body).into_attributes();
        for name in ["fingerprint", "fingerprint_expression"] {
            let is_present = attributes.get("token").is_some_and(|it| it.get(name).is_some());
            assert_eq!(is_present, has_fingerprint, "{name} of {token_type:?}, {is_marked}");
        }
    }

    #[test]
    fn events_of_type_token_and_of_marked_tokens_have_no_fingerprint() {
        check(TokenType::Card, false, true);
        check(TokenType::Card, true, false);
        check(TokenType::Token, false, false);
        check(TokenType::Bank, false, true);
    }
}
