//! Requests about tokens: parses JSON into a new token or a patch.

use scrip_core::{
    error::FieldError,
    policy::MissingFeature,
    time::Timestamp,
    token::{Containers, NewToken, Plaintext, TokenPatch, TokenSource, TokenType},
};

use crate::wire::{
    ParseError,
    fields::{JsonField, JsonFields},
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

/// Whether a request has the attribute `encrypted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncryptedData {
    Absent,
    Rejected,
}

/// Rejects `encrypted`, which a client can send in place of `data` if the server has a key for it.
/// Other unknown attributes are dropped, but a client that sends this one expects it to be stored.
pub(crate) fn reject_encrypted(fields: &mut JsonFields) -> EncryptedData {
    if fields.take_any("encrypted").is_none_or(|it| it.is_null()) {
        return EncryptedData::Absent;
    }
    let feature = MissingFeature::ClientEncryptionKeys.as_str();
    let problem = format!("cannot be used: this server does not have the feature: {feature}");
    fields.errors.push(FieldError { field: "encrypted".into(), problem: problem.into() });
    EncryptedData::Rejected
}

/// Parses either type and data, or an intent. Returns `None` if an error was added.
fn parse_source(fields: &mut JsonFields) -> Option<TokenSource> {
    let encrypted_data = reject_encrypted(fields);
    let intent = fields.text("token_intent_id").into_option();
    let token_type = fields.text("type");
    let data = fields.take_any("data").filter(|it| !it.is_null()).map(Plaintext::new);
    if let Some(intent) = intent {
        if matches!(token_type, JsonField::Given(_)) || data.is_some() {
            let rule = "cannot be given together with type and data";
            fields.errors.push(FieldError::new("token_intent_id", rule));
        }
        return Some(TokenSource::Intent(intent));
    }
    let parsed_type = fields.parse_choice("type", token_type, TokenType::parse, TYPE_RULE);
    if parsed_type.is_none() {
        fields.add_required_error("type");
    }
    if data.is_none() && encrypted_data == EncryptedData::Absent {
        fields.errors.push(FieldError::new("data", "is required"));
    }
    Some(TokenSource::Data { token_type: parsed_type?, data: data? })
}

pub(crate) fn parse_patch(body: Plaintext) -> Result<TokenPatch, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    reject_encrypted(&mut fields);
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
