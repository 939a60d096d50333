//! Requests about tokens: parses JSON into a new token or a patch.

use scrip_core::{
    FieldError, Timestamp,
    card::TokenType,
    token::{EncryptedData, NewToken, TokenPatch, TokenSource},
    types::{Containers, Plaintext},
};

use crate::wire::{
    ParseError,
    json::{JsonField, JsonFields},
};

pub(crate) const TYPE_RULE: &str = "is not a token type; use token, card, card_number, network_token, bank, \
     us_bank_account_number, us_bank_routing_number, social_security_number or employer_id_number";

pub(crate) fn parse_new(body: Plaintext) -> Result<NewToken, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let source = parse_source(&mut fields);
    let new = NewToken {
        id: fields.text("id").into_option(),
        source: source.unwrap_or_else(|| TokenSource::Intent(String::new())),
        mask: fields.take_any("mask").filter(|it| !it.is_null()),
        containers: parse_containers(&mut fields).into_option(),
        metadata: fields.text_map("metadata").into_option(),
        search_indexes: fields.texts("search_indexes").into_option(),
        fingerprint_expression: fields.text("fingerprint_expression").into_option(),
        deduplicate: fields.boolean("deduplicate_token").into_option(),
        expires_at: parse_expiry(&mut fields).into_option(),
    };
    fields.finish().map(|()| new)
}

/// `data`, or `encrypted` in place of it.
pub(crate) enum ReceivedData {
    Clear(Plaintext),
    Encrypted(String),
}

/// Returns `None` if an error was added.
pub(crate) fn parse_data(fields: &mut JsonFields) -> Option<ReceivedData> {
    let data = fields.take_any("data").filter(|it| !it.is_null()).map(Plaintext::new);
    match (data, fields.text("encrypted")) {
        (Some(data), JsonField::Absent | JsonField::Null) => Some(ReceivedData::Clear(data)),
        (Some(_), JsonField::Given(_)) => {
            fields.errors.push(FieldError::new("encrypted", "cannot be given together with data"));
            None
        }
        (None, JsonField::Given(text)) => Some(ReceivedData::Encrypted(text)),
        (None, JsonField::Absent | JsonField::Null) => {
            fields.add_required_error("data");
            None
        }
    }
}

/// Parses a JWE. Returns `None` if an error was added.
pub(crate) fn parse_encrypted(
    fields: &mut JsonFields,
    token_type: TokenType,
    text: &str,
) -> Option<EncryptedData> {
    EncryptedData::parse(token_type, text).map_err(|error| fields.errors.push(error)).ok()
}

/// Parses either type and data, or an intent. Returns `None` if an error was added.
fn parse_source(fields: &mut JsonFields) -> Option<TokenSource> {
    let intent = fields.text("token_intent_id").into_option();
    let token_type = fields.text("type");
    if let Some(intent) = intent {
        let mut is_given = |name| fields.take_any(name).is_some_and(|it| !it.is_null());
        let has_data = is_given("data") | is_given("encrypted");
        if matches!(token_type, JsonField::Given(_)) || has_data {
            let rule = "cannot be given together with type, data and encrypted";
            fields.errors.push(FieldError::new("token_intent_id", rule));
        }
        return Some(TokenSource::Intent(intent));
    }
    let parsed_type = fields.parse_choice("type", token_type, TokenType::parse, TYPE_RULE);
    if parsed_type.is_none() {
        fields.add_required_error("type");
    }
    match (parse_data(fields)?, parsed_type?) {
        (ReceivedData::Clear(data), token_type) => Some(TokenSource::Data { token_type, data }),
        (ReceivedData::Encrypted(text), token_type) => {
            parse_encrypted(fields, token_type, &text).map(TokenSource::Encrypted)
        }
    }
}

pub(crate) fn parse_patch(body: Plaintext) -> Result<TokenPatch, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    // Other unknown attributes are dropped, but a client that sends this one expects it to be stored.
    if fields.take_any("encrypted").is_some_and(|it| !it.is_null()) {
        let rule = "cannot be used in an update; create a token with it";
        fields.errors.push(FieldError::new("encrypted", rule));
    }
    let patch = TokenPatch {
        data: fields.take_any("data").map(Plaintext::new),
        mask: fields.take_any("mask"),
        metadata: fields.take_any("metadata"),
        containers: parse_containers(&mut fields).into_patch(),
        search_indexes: fields.texts("search_indexes").into_patch(),
        fingerprint_expression: fields.text("fingerprint_expression").into_patch(),
        deduplicate: fields.boolean("deduplicate_token").into_option(),
        expires_at: parse_expiry(&mut fields).into_patch(),
    };
    fields.finish().map(|()| patch)
}

pub(crate) fn parse_containers(fields: &mut JsonFields) -> JsonField<Containers> {
    let texts = fields.texts("containers");
    fields.parse(texts, |it| Containers::parse(it.iter().map(String::as_str)))
}

fn parse_expiry(fields: &mut JsonFields) -> JsonField<Timestamp> {
    let text = fields.text("expires_at");
    fields.parse(text, |it| Timestamp::parse_expiry(&it).map_err(|error| vec![error]))
}
