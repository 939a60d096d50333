//! Keyed hashes and the texts of bytes.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};

use super::{Context, Filtered, argument, text::over};
use crate::{
    inner_steps::count,
    outside::HmacAlgorithm,
    value::datum::{Datum, base16, text_of},
};

pub(crate) fn hmac<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let algorithm = HmacAlgorithm::parse(&argument::text(arguments, 0));
    let algorithm = algorithm.ok_or("hmac knows sha-1, sha-256 and sha-512")?;
    let key = argument::text(arguments, 1);
    if key.is_empty() {
        return Err("hmac takes a key");
    }
    let outside = context.outside.ok_or("hmac is not available here")?;
    if value.is_null() {
        return Ok(value);
    }
    let message = text_of(&value);
    context.budget.bytes(message.len().saturating_mul(HASH_WORK))?;
    count(message.len().saturating_mul(HASH_WORK).saturating_add(key.len()));
    Ok(Datum::bytes(outside.hmac(algorithm, key.as_bytes(), message.as_bytes())))
}

/// Hashing a byte takes about as long as reading this many.
const HASH_WORK: usize = 4;

/// The bytes of `hmac`, or those of a text.
fn encoded<'a>(value: Datum<'a>, encode: fn(&[u8]) -> String) -> Filtered<'a> {
    match &value {
        Datum::Bytes { raw, .. } => {
            count(raw.len());
            Ok(Datum::text(encode(raw)))
        }
        Datum::Borrowed(_) | Datum::Owned(_) | Datum::Shared(_) | Datum::Empty | Datum::Blank => {
            over(value, |text| encode(text.as_bytes()))
        }
    }
}

pub(crate) fn to_base16<'a>(_: &Context<'_>, value: Datum<'a>, _: &[Datum<'a>]) -> Filtered<'a> {
    encoded(value, base16)
}

pub(crate) fn to_base64<'a>(_: &Context<'_>, value: Datum<'a>, _: &[Datum<'a>]) -> Filtered<'a> {
    encoded(value, |it| STANDARD.encode(it))
}

pub(crate) fn base64_url_safe_encode<'a>(
    _: &Context<'_>,
    value: Datum<'a>,
    _: &[Datum<'a>],
) -> Filtered<'a> {
    encoded(value, |it| URL_SAFE.encode(it))
}

pub(crate) fn base64_decode<'a>(
    _: &Context<'_>,
    value: Datum<'a>,
    _: &[Datum<'a>],
) -> Filtered<'a> {
    decoded(value, |it| STANDARD.decode(it).ok())
}

pub(crate) fn base64_url_safe_decode<'a>(
    _: &Context<'_>,
    value: Datum<'a>,
    _: &[Datum<'a>],
) -> Filtered<'a> {
    decoded(value, |it| URL_SAFE.decode(it).ok())
}

fn decoded<'a>(value: Datum<'a>, decode: fn(&str) -> Option<Vec<u8>>) -> Filtered<'a> {
    if value.is_null() {
        return Ok(value);
    }
    let text = text_of(&value);
    count(text.len());
    let bytes = decode(&text).ok_or("this is not base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "what this base64 stands for is not text")?;
    Ok(Datum::text(text))
}
