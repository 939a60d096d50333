//! JSON of token intents.

#[cfg(test)]
mod tests;

use scrip_core::{
    FieldError,
    card::TokenType,
    idempotency::RenderedResponse,
    token::{IntentAuthentication, IntentData, NewTokenIntent, TokenIntentView},
    types::Plaintext,
};
use serde::Serialize;

use crate::wire::{
    ParseError,
    json::JsonFields,
    response::render,
    tokens::{
        token::{ReceivedData, TYPE_RULE, parse_containers, parse_data, parse_encrypted},
        token_response::{BankBody, CardDetailsBody, bank_body, card_details_body},
    },
};

/// A cryptogram has 28 characters of base64; the limit leaves space for other formats.
const AUTHENTICATION_CHARS_MAX: usize = 256;

pub(crate) fn parse_new(body: Plaintext) -> Result<NewTokenIntent, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let token_type = fields.required_text("type");
    let token_type = fields.parse_choice("type", token_type, TokenType::parse, TYPE_RULE);
    let data = match (parse_data(&mut fields), token_type) {
        (Some(ReceivedData::Clear(data)), _) => Some(IntentData::Clear(data)),
        (Some(ReceivedData::Encrypted(text)), Some(token_type)) => {
            parse_encrypted(&mut fields, token_type, &text).map(IntentData::Encrypted)
        }
        (Some(ReceivedData::Encrypted(_)) | None, _) => None,
    };
    let authentication = fields.text_map("authentication");
    let authentication = fields.parse(authentication, |mut it| {
        if it.values().any(|it| it.chars().count() > AUTHENTICATION_CHARS_MAX) {
            let rule = "must have values of at most 256 characters";
            return Err(vec![FieldError::new("authentication", rule)]);
        }
        Ok(IntentAuthentication {
            threeds_cryptogram: it.remove("threeds_cryptogram"),
            eci_indicator: it.remove("eci_indicator"),
        })
    });
    let authentication = authentication.into_option();
    let containers = parse_containers(&mut fields).into_option();
    let required = token_type.zip(data);
    fields.finish_with(required).map(|(token_type, data)| NewTokenIntent {
        token_type,
        data,
        containers,
        authentication,
    })
}

/// An absent card or authentication is null, other absent values are omitted. The data of the intent
/// is never included.
#[derive(Serialize)]
struct TokenIntentBody<'a> {
    id: String,
    tenant_id: String,
    r#type: &'static str,
    card: Option<CardDetailsBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_token: Option<CardDetailsBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bank: Option<BankBody<'a>>,
    authentication: Option<&'a IntentAuthentication>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    containers: Vec<&'a str>,
    expires_at: String,
    created_by: String,
    created_at: String,
}

pub(crate) fn render_created(intent: &TokenIntentView) -> RenderedResponse {
    render(201, &body(intent))
}

pub(crate) fn render_token_intent(intent: &TokenIntentView) -> RenderedResponse {
    render(200, &body(intent))
}

fn body(intent: &TokenIntentView) -> TokenIntentBody<'_> {
    TokenIntentBody {
        id: intent.id.to_string(),
        tenant_id: intent.tenant_id.to_string(),
        r#type: intent.token_type.as_str(),
        card: intent.card.as_ref().map(card_details_body),
        network_token: intent.network_token.as_ref().map(card_details_body),
        bank: intent.bank.as_ref().map(bank_body),
        authentication: intent.authentication.as_ref(),
        fingerprint: intent.fingerprint.map(|it| it.to_string()),
        containers: intent.containers.iter().map(|it| it.as_str()).collect(),
        expires_at: intent.expires_at.to_string(),
        created_by: intent.created_by.to_string(),
        created_at: intent.created_at.to_string(),
    }
}
