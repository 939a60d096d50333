//! Requests about tokens: parses JSON into a new token or a patch.

use scrip_core::{
    error::FieldError,
    time::Timestamp,
    token::{Containers, NewToken, Plain, TokenPatch, TokenSource, TokenType},
};

use crate::wire::{
    ParseError,
    fields::{Field, Fields},
};

pub(crate) const TYPE_RULE: &str = "is not a type of token";

pub(crate) fn parse_new(body: Plain) -> Result<NewToken, ParseError> {
    let mut fields = Fields::of(body)?;
    let source = parse_source(&mut fields);
    let new = NewToken {
        id: fields.text("id").given(),
        source: source.unwrap_or_else(|| TokenSource::Intent(String::new())),
        mask: fields.any("mask").filter(|it| !it.is_null()),
        containers: parse_containers(&mut fields).given(),
        metadata: fields.text_map("metadata").given(),
        search_indexes: fields.texts("search_indexes").given(),
        fingerprint_expression: fields.text("fingerprint_expression").given(),
        deduplicate: fields.boolean("deduplicate_token").given(),
        expires_at: parse_expiry(&mut fields).given(),
    };
    fields.finish().map(|()| new)
}

/// Either type and data, or an intent. Nothing when a complaint was noted.
fn parse_source(fields: &mut Fields) -> Option<TokenSource> {
    let intent = fields.text("token_intent_id").given();
    let token_type = fields.text("type");
    let data = fields.any("data").filter(|it| !it.is_null()).map(Plain::new);
    if let Some(intent) = intent {
        if matches!(token_type, Field::Given(_)) || data.is_some() {
            let rule = "cannot be given together with type and data";
            fields.errors.push(FieldError::new("token_intent_id", rule));
        }
        return Some(TokenSource::Intent(intent));
    }
    let known = fields.parse_choice("type", token_type, TokenType::parse, TYPE_RULE);
    if known.is_none() {
        fields.require("type");
    }
    if data.is_none() {
        fields.errors.push(FieldError::new("data", "is required"));
    }
    Some(TokenSource::Data { token_type: known?, data: data? })
}

pub(crate) fn parse_patch(body: Plain) -> Result<TokenPatch, ParseError> {
    let mut fields = Fields::of(body)?;
    let patch = TokenPatch {
        data: fields.any("data").map(Plain::new),
        mask: fields.any("mask"),
        metadata: fields.any("metadata"),
        containers: parse_containers(&mut fields).patched(),
        search_indexes: fields.texts("search_indexes").patched(),
        fingerprint_expression: fields.text("fingerprint_expression").patched(),
        deduplicate: fields.boolean("deduplicate_token").given(),
        expires_at: parse_expiry(&mut fields).patched(),
    };
    fields.finish().map(|()| patch)
}

pub(crate) fn parse_containers(fields: &mut Fields) -> Field<Containers> {
    let texts = fields.texts("containers");
    fields.parse(texts, |it| Containers::parse(it.iter().map(String::as_str)))
}

fn parse_expiry(fields: &mut Fields) -> Field<Timestamp> {
    let text = fields.text("expires_at");
    fields.parse(text, |it| Timestamp::parse_expiry(&it).map_err(|error| vec![error]))
}
