//! The header `BT-ENCRYPTED`: data that the client encrypted for this call.

use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use hyper::HeaderMap;
use scrip_core::{
    FieldError, card::TokenType, operations::proxy_calls::decrypt_call_data::EncryptedCallData,
    token::EncryptedData,
};
use serde_json::{Map, Value};

use crate::{proxy::error::ProxyError, wire};

const NAME: &str = "bt-encrypted";
const FIELD: &str = "headers.BT-ENCRYPTED";

const RULE: &str = "must be base64 of a JSON object with type and encrypted, or of an object with \
                    such objects by name";
const SINGLE_RULE: &str = "must be sent at most once";

/// Clients encode with and without padding.
const CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const ENGINES: [GeneralPurpose; 2] =
    [GeneralPurpose::new(&STANDARD, CONFIG), GeneralPurpose::new(&URL_SAFE, CONFIG)];

/// Parses the header; `None` if the request has none.
/// Errors: the header breaks a rule of its form. The error never repeats a part of it.
pub fn parse_encrypted_header(
    headers: &HeaderMap,
) -> Result<Option<EncryptedCallData>, ProxyError> {
    let mut values = headers.get_all(NAME).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ProxyError::invalid(FIELD, SINGLE_RULE));
    }
    let decoded = ENGINES.iter().find_map(|it| it.decode(value.as_bytes()).ok());
    let parsed = decoded.and_then(|it| wire::json::read(&it).ok());
    let parsed = parsed.ok_or_else(|| ProxyError::invalid(FIELD, RULE))?;
    let Some(object) = parsed.expose().as_object() else {
        return Err(ProxyError::invalid(FIELD, RULE));
    };
    if object.get("encrypted").is_some_and(Value::is_string) {
        return Ok(Some(EncryptedCallData::Single(parse_member("", object)?)));
    }
    let mut named = Vec::with_capacity(object.len());
    for (name, member) in object {
        let member = member.as_object().ok_or_else(|| ProxyError::invalid(FIELD, RULE))?;
        named.push((name.clone(), parse_member(name, member)?));
    }
    if named.is_empty() {
        return Err(ProxyError::invalid(FIELD, RULE));
    }
    Ok(Some(EncryptedCallData::Named(named)))
}

fn parse_member(name: &str, member: &Map<String, Value>) -> Result<EncryptedData, ProxyError> {
    let with_path = |error: FieldError| match name {
        "" => error,
        name => error.prefix_path(name),
    };
    let text = |name: &'static str| member.get(name).and_then(Value::as_str);
    let missing = |name: &'static str| with_path(FieldError::new(name, "is required"));
    let token_type = text("type").ok_or_else(|| missing("type"))?;
    let token_type = TokenType::parse(token_type)
        .ok_or_else(|| with_path(FieldError::new("type", wire::tokens::token::TYPE_RULE)))?;
    let encrypted = text("encrypted").ok_or_else(|| missing("encrypted"))?;
    EncryptedData::parse(token_type, encrypted).map_err(|error| with_path(error).into())
}
