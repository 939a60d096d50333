//! Token intents on the wire.

#[cfg(test)]
mod tests;

use scrip_core::{
    error::FieldError,
    idempotency::Rendered,
    token::{IntentAuthentication, NewTokenIntent, Plain, TokenIntentView, TokenType},
};
use serde::Serialize;

use crate::wire::{
    ParseError,
    answer::render,
    fields::Fields,
    tokens::{
        card::{CardBody, card},
        token::{TYPE_RULE, parse_containers},
        token_response::{BankBody, bank},
    },
};

/// A cryptogram is 28 characters of base64; there is room for others.
const AUTHENTICATION_CHARS_MAX: usize = 256;

pub(crate) fn parse_new(body: Plain) -> Result<NewTokenIntent, ParseError> {
    let mut fields = Fields::of(body)?;
    let token_type = fields.required_text("type");
    let token_type = fields.parse_choice("type", token_type, TokenType::parse, TYPE_RULE);
    let data = fields.any("data").filter(|it| !it.is_null()).map(Plain::new);
    if data.is_none() {
        fields.require("data");
    }
    let authentication = fields.text_map("authentication");
    let authentication = fields.parse(authentication, |mut it| {
        if it.values().any(|it| it.chars().count() > AUTHENTICATION_CHARS_MAX) {
            let rule = "must have texts of at most 256 characters";
            return Err(vec![FieldError::new("authentication", rule)]);
        }
        Ok(IntentAuthentication {
            threeds_cryptogram: it.remove("threeds_cryptogram"),
            eci_indicator: it.remove("eci_indicator"),
        })
    });
    let authentication = authentication.given();
    let containers = parse_containers(&mut fields).given();
    let both = token_type.zip(data);
    fields.finish_with(both).map(|(token_type, data)| NewTokenIntent {
        token_type,
        data,
        containers,
        authentication,
    })
}

/// What is absent is left out, everywhere. There is no data in it, ever.
#[derive(Serialize)]
struct TokenIntentBody<'a> {
    id: String,
    tenant_id: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<CardBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_token: Option<CardBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bank: Option<BankBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<&'a IntentAuthentication>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    containers: Vec<&'a str>,
    expires_at: String,
    created_by: String,
    created_at: String,
}

pub(crate) fn created(intent: &TokenIntentView) -> Rendered {
    render(201, &body(intent))
}

pub(crate) fn found(intent: &TokenIntentView) -> Rendered {
    render(200, &body(intent))
}

fn body(intent: &TokenIntentView) -> TokenIntentBody<'_> {
    TokenIntentBody {
        id: intent.id.to_string(),
        tenant_id: intent.tenant_id.to_string(),
        r#type: intent.token_type.as_str(),
        card: intent.card.as_ref().map(card),
        network_token: intent.network_token.as_ref().map(card),
        bank: intent.bank.as_ref().map(bank),
        authentication: intent.authentication.as_ref(),
        fingerprint: intent.fingerprint.map(|it| it.to_string()),
        containers: intent.containers.iter().map(|it| it.as_str()).collect(),
        expires_at: intent.expires_at.to_string(),
        created_by: intent.created_by.to_string(),
        created_at: intent.created_at.to_string(),
    }
}
