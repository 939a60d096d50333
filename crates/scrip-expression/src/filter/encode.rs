//! Keyed hashes and the texts of bytes.

use base64::{Engine, engine::GeneralPurpose};

use super::{Filtered, Input, text::over};
use crate::{
    inner_steps::count,
    outside::HmacAlgorithm,
    value::datum::{Datum, text_of},
};

pub(crate) fn hmac<'a>(input: Input<'_, 'a>) -> Filtered<'a> {
    let algorithm = HmacAlgorithm::parse(&input.arguments.text(0));
    let algorithm = algorithm.ok_or("hmac knows sha-1, sha-256 and sha-512")?;
    let key = input.arguments.text(1);
    if key.is_empty() {
        return Err("hmac takes a key");
    }
    let outside = input.outside.ok_or("hmac is not available here")?;
    if input.value.is_null() {
        return Ok(input.value);
    }
    let message = text_of(&input.value);
    input.budget.bytes(message.len().saturating_mul(HASH_WORK))?;
    count(message.len().saturating_mul(HASH_WORK).saturating_add(key.len()));
    Ok(Datum::bytes(outside.hmac(algorithm, key.as_bytes(), message.as_bytes())))
}

/// Hashing a byte takes about as long as reading this many.
const HASH_WORK: usize = 4;

/// The bytes of `hmac`, or those of a text.
pub(crate) fn encoded<'a>(input: Input<'_, 'a>, encode: impl Fn(&[u8]) -> String) -> Filtered<'a> {
    match &input.value {
        Datum::Bytes { raw, .. } => {
            count(raw.len());
            Ok(Datum::text(encode(raw)))
        }
        Datum::Borrowed(_) | Datum::Owned(_) | Datum::Shared(_) | Datum::Empty | Datum::Blank => {
            over(input.value, |text| encode(text.as_bytes()))
        }
    }
}

pub(crate) fn to_base64<'a>(input: Input<'_, 'a>, engine: &GeneralPurpose) -> Filtered<'a> {
    encoded(input, |it| engine.encode(it))
}

pub(crate) fn from_base64<'a>(input: Input<'_, 'a>, engine: &GeneralPurpose) -> Filtered<'a> {
    if input.value.is_null() {
        return Ok(input.value);
    }
    let text = text_of(&input.value);
    count(text.len());
    let bytes = engine.decode(&*text).map_err(|_| "this is not base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "what this base64 stands for is not text")?;
    Ok(Datum::text(text))
}
