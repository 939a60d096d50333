//! What clients ask for.

use std::net::IpAddr;

use scrip_core::{
    error::FieldError,
    id::{TokenId, TokenIntentId},
    operations::sessions::{authenticate_session::NewAuthentication, create_session::NewSession},
    threeds::{CardReference, ChallengeMode},
    token::Plain,
};
use scrip_threeds::{
    code::{Device, SessionType},
    request::{AuthenticateRequest, DeviceInfo},
};
use serde_json::{Map, Value};

use crate::wire::{
    ParseError,
    fields::Fields,
    threeds::device::{DEVICE_BYTES_MAX, Told, json_bytes},
};

/// As many as a token can have.
pub(super) const METADATA_MAX: usize = 50;
const METADATA_BYTES_MAX: usize = 16 * 1024;

/// EMV has no room for more.
const ACCEPT_CHARS_MAX: usize = 2048;

const UNKNOWN: &str = "is not one of the values it may have";

/// What the server saw of whoever asks, in place of what a browser did not tell.
pub(crate) struct Seen {
    pub(crate) accept: Option<String>,
    pub(crate) address: IpAddr,
}

pub(crate) fn parse_new(body: Plain, seen: Seen) -> Result<NewSession, ParseError> {
    let mut fields = Fields::of(body)?;
    let card = card(&mut fields);
    let kind = named(&mut fields, "type", SessionType::from_name).unwrap_or(SessionType::Customer);
    let device = named(&mut fields, "device", Device::from_request).unwrap_or(Device::Browser);
    let device_info = device_info(&mut fields).unwrap_or_default();
    let mode = named(&mut fields, "web_challenge_mode", challenge_mode);
    let metadata = metadata(&mut fields);
    // Where nobody sits at a device, there is none to tell of.
    let (device, device_info) = match (kind, device) {
        (SessionType::Merchant, _) => (Device::Browser, DeviceInfo::default()),
        (SessionType::Customer, Device::Mobile) => (device, device_info),
        (SessionType::Customer, Device::Browser) => (device, completed(device_info, seen)),
    };
    let challenge_mode = mode.unwrap_or(ChallengeMode::Iframe);
    let session = |card| NewSession { card, kind, device, device_info, challenge_mode, metadata };
    fields.finish_with(card.map(session))
}

pub(crate) fn parse_device(body: Plain) -> Result<DeviceInfo, ParseError> {
    let mut fields = Fields::of(body)?;
    let device_info = device_info(&mut fields);
    if device_info.is_none() {
        fields.require("device_info");
    }
    fields.finish_with(device_info)
}

/// Types only: whether it makes sense is decided where the session is known.
pub(crate) fn parse_authentication(body: Plain) -> Result<NewAuthentication, ParseError> {
    let mut fields = Fields::of(body)?;
    let card_brand = fields.text("card_brand").given();
    let request: Option<AuthenticateRequest> = fields.rest();
    fields.finish_with(request.map(|request| NewAuthentication { request, card_brand }))
}

/// One of three names, of which one is an old one.
fn card(fields: &mut Fields) -> Option<CardReference> {
    const NAMES: [&str; 3] = ["token_id", "token_intent_id", "pan"];
    let given = NAMES.map(|name| (name, fields.text(name)));
    let given: Vec<_> =
        given.into_iter().filter_map(|(name, it)| Some((name, it.given()?))).collect();
    let Ok([(name, text)]) = <[_; 1]>::try_from(given) else {
        // What is of another type was told of already.
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
        // As of one that is well formed and not there.
        fields.errors.push(FieldError::new(name, "is no card of this tenant"));
    }
    card
}

/// A word of a list.
fn named<T>(
    fields: &mut Fields,
    name: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let word = fields.text(name);
    fields.parse_choice(name, word, read, UNKNOWN)
}

fn challenge_mode(name: &str) -> Option<ChallengeMode> {
    match name {
        "iframe" => Some(ChallengeMode::Iframe),
        "redirect" => Some(ChallengeMode::Redirect),
        _ => None,
    }
}

fn device_info(fields: &mut Fields) -> Option<DeviceInfo> {
    let Told(info) = fields.part("device_info")?;
    if json_bytes(&info) > DEVICE_BYTES_MAX {
        fields.errors.push(FieldError::new("device_info", "is larger than 72 KiB"));
    }
    Some(info)
}

fn metadata(fields: &mut Fields) -> Option<Map<String, Value>> {
    let object = fields.object("metadata");
    let bounded = fields.parse(object, |it| {
        let refuse = |rule| Err(vec![FieldError::new("metadata", rule)]);
        if it.len() > METADATA_MAX {
            return refuse("must have at most 50 entries");
        }
        if json_bytes(&it) > METADATA_BYTES_MAX {
            return refuse("is larger than 16 KiB");
        }
        Ok(it)
    });
    bounded.given()
}

/// Scripts cannot know these two of their own browser.
fn completed(info: DeviceInfo, seen: Seen) -> DeviceInfo {
    let accept = seen.accept.map(|it| it.chars().take(ACCEPT_CHARS_MAX).collect());
    DeviceInfo {
        browser_accept_header: info.browser_accept_header.or(accept),
        browser_ip: info.browser_ip.or_else(|| Some(seen.address.to_canonical().to_string())),
        ..info
    }
}
