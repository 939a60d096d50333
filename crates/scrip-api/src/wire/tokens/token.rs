//! Tokens on the wire.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use scrip_core::{
    card::bank::BankDetails,
    error::FieldError,
    idempotency::Rendered,
    time::Timestamp,
    token::{Containers, NewToken, Plain, TokenPatch, TokenSource, TokenType, TokenView, Written},
};
use serde::Serialize;
use serde_json::Value;

use crate::wire::{
    ParseError, answer,
    fields::{Field, Fields},
    tokens::card::{CardBody, card},
};

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
    let known = fields.parse(token_type, |it| {
        let unknown = || vec![FieldError::new("type", "is not a type of token")];
        TokenType::parse(&it).ok_or_else(unknown)
    });
    let known = known.given();
    let complained = fields.errors.iter().any(|it| it.field == "type");
    if known.is_none() && !complained {
        fields.errors.push(FieldError::new("type", "is required"));
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

/// What is absent is left out, everywhere.
#[derive(Serialize)]
struct TokenBody<'a> {
    id: &'a str,
    tenant_id: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    containers: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    detail: Option<DetailBody<'a>>,
    #[serde(rename = "_extras", skip_serializing_if = "Option::is_none")]
    extras: Option<ExtrasBody>,
}

#[derive(Serialize)]
struct DetailBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<CardBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_token: Option<CardBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bank: Option<BankBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_indexes: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint_expression: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    created_by: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct BankBody<'a> {
    routing_number: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    account_number_last4: Option<&'a str>,
}

#[derive(Serialize)]
struct ExtrasBody {
    deduplicated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deduplication_behavior: Option<&'static str>,
}

/// The answer to Create Token, without the data.
pub(crate) fn created(written: &Written) -> Rendered {
    let behavior = written.deduplicated.map(scrip_core::policy::DeduplicationBehavior::as_str);
    let extras = ExtrasBody { deduplicated: behavior.is_some(), deduplication_behavior: behavior };
    render(201, &written.token, Some(extras))
}

/// The answer to Update Token, without the data.
pub(crate) fn updated(written: &Written) -> Rendered {
    let extras = written
        .deduplicated
        .map(|it| ExtrasBody { deduplicated: true, deduplication_behavior: Some(it.as_str()) });
    render(200, &written.token, extras)
}

/// The answer to Get Token, without the data.
pub(crate) fn found(token: &TokenView) -> Rendered {
    render(200, token, None)
}

fn render(status: u16, token: &TokenView, extras: Option<ExtrasBody>) -> Rendered {
    let detail = token.detail.as_ref().map(|it| DetailBody {
        mask: it.mask.as_deref(),
        card: it.card.as_ref().map(card),
        network_token: it.network_token.as_ref().map(card),
        bank: it.bank.as_ref().map(bank),
        metadata: it.metadata.as_ref(),
        search_indexes: it.search_indexes.as_deref(),
        fingerprint_expression: it.fingerprint_expression.as_deref(),
        expires_at: it.expires_at.map(|it| it.to_string()),
        created_by: it.created_by.to_string(),
        created_at: it.created_at.to_string(),
        modified_by: it.modified.map(|it| it.by.to_string()),
        modified_at: it.modified.map(|it| it.at.to_string()),
    });
    let body = TokenBody {
        id: token.id.as_str(),
        tenant_id: token.tenant_id.to_string(),
        r#type: token.token_type.as_str(),
        fingerprint: token.fingerprint.map(|it| it.to_string()),
        containers: token.containers.iter().map(|it| it.as_str()).collect(),
        expires_at: token.expires_at.map(|it| it.to_string()),
        detail,
        extras,
    };
    Rendered::of_token(status, answer::render(status, &body).body)
}

pub(crate) fn bank(details: &BankDetails) -> BankBody<'_> {
    BankBody {
        routing_number: &details.routing_number,
        account_number_last4: details.account_number_last4.as_deref(),
    }
}
