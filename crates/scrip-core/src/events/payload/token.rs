//! The data of events of tokens and token intents.

use serde_json::Value;

use crate::{
    card::TokenType,
    events::{EventData, payload::PayloadAttributes},
    token::{TokenBody, TokenIntentRecord, TokenRecord},
    types::id::{TokenId, TokenIntentId},
};

/// Metadata and search indexes with more bytes are left out of an event. The transaction of a write has
/// a copy for each webhook, and the writes of all tenants wait for it.
const ATTRIBUTE_BYTES_MAX: usize = 16 * 1024;

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
        let bytes = metadata.iter().map(|(name, value)| name.len().saturating_add(value.len()));
        token = if is_in_event(bytes) {
            let entries = metadata.iter();
            let entries = entries.map(|(name, value)| (name.clone(), value.as_str().into()));
            token.value("metadata", Value::Object(entries.collect()))
        } else {
            token.value("metadata_omitted", true)
        };
    }
    let indexes = body.search_indexes.as_deref().unwrap_or_else(|| token_type.default_indexes());
    if !is_in_event(indexes.iter().map(String::len)) {
        token = token.value("search_indexes_omitted", true);
    } else if !indexes.is_empty() {
        token = token.value("search_indexes", indexes.to_vec());
    }
    EventData::new("token", token)
}

fn is_in_event(bytes: impl Iterator<Item = usize>) -> bool {
    bytes.fold(0, usize::saturating_add) <= ATTRIBUTE_BYTES_MAX
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

    fn describe(token_type: TokenType, body: &TokenBody) -> serde_json::Map<String, Value> {
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
        let mut attributes = describe_token(&record, body).into_attributes();
        attributes["token"].as_object_mut().map(std::mem::take).unwrap()
    }

    #[track_caller]
    fn check(token_type: TokenType, is_marked: bool, has_fingerprint: bool) {
        let body = TokenBody { is_marked, ..TokenBody::default() };
        let token = describe(token_type, &body);
        for name in ["fingerprint", "fingerprint_expression"] {
            let is_present = token.contains_key(name);
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

    #[test]
    fn event_marks_attributes_above_16_kib_as_omitted() {
        for (bytes, is_present) in [(16 * 1024, true), (16 * 1024 + 1, false)] {
            let value = "x".repeat(bytes - 1);
            let body = TokenBody {
                metadata: Some([("k".to_owned(), value.clone())].into()),
                search_indexes: Some(vec!["k".to_owned(), value]),
                ..TokenBody::default()
            };
            let token = describe(TokenType::Token, &body);
            for name in ["metadata", "search_indexes"] {
                assert_eq!(token.contains_key(name), is_present, "{name} of {bytes} bytes");
                let mark = format!("{name}_omitted");
                assert_eq!(token.get(&mark), (!is_present).then_some(&Value::from(true)));
            }
        }
    }
}
