//! Parses the requests about 3DS sessions.

use std::net::IpAddr;

use scrip_core::{
    FieldError,
    operations::threeds_sessions::{
        authenticate_threeds_session::NewAuthentication, create_threeds_session::NewThreeDsSession,
    },
    threeds::{CardReference, ChallengeMode},
    types::{
        Plaintext,
        id::{TokenId, TokenIntentId},
    },
};
use scrip_threeds::{
    code::{Device, ThreeDsSessionType},
    request::{AuthenticateRequest, DeviceInfo},
};
use serde_json::{Map, Value};

use crate::wire::{
    ParseError,
    json::JsonFields,
    threeds::device::{DEVICE_BYTES_MAX, DeviceInfoInput, json_bytes},
};

/// The same limit as for tokens.
pub(super) const METADATA_MAX: usize = 50;
const METADATA_BYTES_MAX: usize = 16 * 1024;

/// The EMV limit.
const ACCEPT_CHARS_MAX: usize = 2048;

const UNKNOWN_VALUE: &str = "is not an allowed value";

/// Values from the HTTP request, used if the client did not send them in `device_info`.
pub(crate) struct ObservedClient {
    pub(crate) accept: Option<String>,
    pub(crate) address: IpAddr,
}

pub(crate) fn parse_new(
    body: Plaintext,
    client: ObservedClient,
) -> Result<NewThreeDsSession, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let card = parse_card(&mut fields);
    let kind = parse_choice(&mut fields, "type", ThreeDsSessionType::from_name)
        .unwrap_or(ThreeDsSessionType::Customer);
    let device =
        parse_choice(&mut fields, "device", Device::from_request).unwrap_or(Device::Browser);
    let device_info = parse_device_info(&mut fields).unwrap_or_default();
    let mode = parse_choice(&mut fields, "web_challenge_mode", parse_challenge_mode);
    let metadata = parse_metadata(&mut fields);
    // A merchant-initiated session has no device.
    let (device, device_info) = match (kind, device) {
        (ThreeDsSessionType::Merchant, _) => (Device::Browser, DeviceInfo::default()),
        (ThreeDsSessionType::Customer, Device::Mobile) => (device, device_info),
        (ThreeDsSessionType::Customer, Device::Browser) => {
            (device, fill_from_client(device_info, client))
        }
    };
    let challenge_mode = mode.unwrap_or(ChallengeMode::Iframe);
    let with_card =
        |card| NewThreeDsSession { card, kind, device, device_info, challenge_mode, metadata };
    fields.finish_with(card.map(with_card))
}

pub(crate) fn parse_device(body: Plaintext) -> Result<DeviceInfo, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let device_info = parse_device_info(&mut fields);
    if device_info.is_none() {
        fields.add_required_error("device_info");
    }
    fields.finish_with(device_info)
}

/// Checks types only. The operation checks the values, because the rules depend on the session.
pub(crate) fn parse_authentication(body: Plaintext) -> Result<NewAuthentication, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let card_brand = fields.text("card_brand").into_option();
    let request: Option<AuthenticateRequest> = fields.read_rest();
    fields.finish_with(request.map(|request| NewAuthentication { request, card_brand }))
}

/// The card has one of three names; `pan` is the old name of `token_id`.
fn parse_card(fields: &mut JsonFields) -> Option<CardReference> {
    const NAMES: [&str; 3] = ["token_id", "token_intent_id", "pan"];
    let references = NAMES.map(|name| (name, fields.text(name)));
    let references: Vec<_> =
        references.into_iter().filter_map(|(name, it)| Some((name, it.into_option()?))).collect();
    let Ok([(name, text)]) = <[_; 1]>::try_from(references) else {
        // A value of the wrong type has already been reported.
        if !fields.errors.iter().any(|it| NAMES.contains(&&*it.field)) {
            let rule = "exactly one of token_id, token_intent_id and pan must be given";
            fields.errors.push(FieldError::new("token_id", rule));
        }
        return None;
    };
    let card = match name {
        "token_intent_id" => TokenIntentId::parse(&text).map(CardReference::TokenIntent),
        _ => TokenId::parse(&text).ok().map(CardReference::Token),
    };
    if card.is_none() {
        // The same error as for a valid id of an unknown card.
        let field = if name == "token_intent_id" { name } else { "token_id" };
        fields.errors.push(FieldError::new(field, "is not a card of this tenant"));
    }
    card
}

/// Parses a value from a fixed list.
fn parse_choice<T>(
    fields: &mut JsonFields,
    name: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let value = fields.text(name);
    fields.parse_choice(name, value, parse, UNKNOWN_VALUE)
}

fn parse_challenge_mode(name: &str) -> Option<ChallengeMode> {
    match name {
        "iframe" => Some(ChallengeMode::Iframe),
        "redirect" => Some(ChallengeMode::Redirect),
        _ => None,
    }
}

fn parse_device_info(fields: &mut JsonFields) -> Option<DeviceInfo> {
    let DeviceInfoInput(info) = fields.read_part("device_info")?;
    if json_bytes(&info) > DEVICE_BYTES_MAX {
        fields.errors.push(FieldError::new("device_info", "is larger than 72 KiB"));
    }
    Some(info)
}

fn parse_metadata(fields: &mut JsonFields) -> Option<Map<String, Value>> {
    let object = fields.object("metadata");
    let metadata = fields.parse(object, |it| {
        let reject = |rule| Err(vec![FieldError::new("metadata", rule)]);
        if it.len() > METADATA_MAX {
            return reject("must have at most 50 entries");
        }
        if json_bytes(&it) > METADATA_BYTES_MAX {
            return reject("is larger than 16 KiB");
        }
        Ok(it)
    });
    metadata.into_option()
}

/// A script cannot read these two values of its own browser.
fn fill_from_client(info: DeviceInfo, client: ObservedClient) -> DeviceInfo {
    let accept = client.accept.map(|it| it.chars().take(ACCEPT_CHARS_MAX).collect());
    DeviceInfo {
        browser_accept_header: info.browser_accept_header.or(accept),
        browser_ip: info.browser_ip.or_else(|| Some(client.address.to_canonical().to_string())),
        ..info
    }
}
