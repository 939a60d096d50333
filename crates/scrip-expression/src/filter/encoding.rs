//! Keyed hashes and encodings of bytes.

use base64::{Engine, engine::GeneralPurpose};

use super::{FilterResult, Input, text::map_text};
use crate::{
    host_functions::HmacAlgorithm,
    inner_steps::count,
    value::datum::{Datum, to_text},
};

pub(crate) fn hmac<'a>(input: Input<'_, 'a>) -> FilterResult<'a> {
    let algorithm = HmacAlgorithm::parse(&input.arguments.text(0));
    let algorithm = algorithm.ok_or("hmac supports sha-1, sha-256 and sha-512")?;
    let key = input.arguments.text(1);
    if key.is_empty() {
        return Err("hmac takes a key");
    }
    let host = input.host.ok_or("hmac is not available here")?;
    if input.value.is_null() {
        return Ok(input.value);
    }
    let message = to_text(&input.value);
    input.budget.charge_bytes(message.len().saturating_mul(HASH_WORK))?;
    count(message.len().saturating_mul(HASH_WORK).saturating_add(key.len()));
    Ok(Datum::from_bytes(host.hmac(algorithm, key.as_bytes(), message.as_bytes())))
}

/// Hashing a byte takes about as long as reading this many bytes.
const HASH_WORK: usize = 4;

/// Encodes the bytes of an `hmac`, or the bytes of text.
pub(crate) fn encode_value<'a>(
    input: Input<'_, 'a>,
    encode: impl Fn(&[u8]) -> String,
) -> FilterResult<'a> {
    match &input.value {
        Datum::Bytes { raw, .. } => {
            count(raw.len());
            Ok(Datum::from_text(encode(raw)))
        }
        Datum::Borrowed(_) | Datum::Owned(_) | Datum::Shared(_) | Datum::Empty | Datum::Blank => {
            map_text(input.value, |text| encode(text.as_bytes()))
        }
    }
}

pub(crate) fn to_base64<'a>(input: Input<'_, 'a>, engine: &GeneralPurpose) -> FilterResult<'a> {
    encode_value(input, |it| engine.encode(it))
}

pub(crate) fn from_base64<'a>(input: Input<'_, 'a>, engine: &GeneralPurpose) -> FilterResult<'a> {
    if input.value.is_null() {
        return Ok(input.value);
    }
    let text = to_text(&input.value);
    count(text.len());
    let bytes = engine.decode(&*text).map_err(|_| "this is not base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "the decoded base64 is not UTF-8 text")?;
    Ok(Datum::from_text(text))
}
