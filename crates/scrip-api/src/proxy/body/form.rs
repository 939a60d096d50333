//! Form bodies: expressions in the values of fields. Other fields are forwarded byte for byte.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use scrip_core::{error::FieldError, token::AttributePath};
use scrip_expression::{ExpressionPlace, MessageText};

use super::piece::{MessagePiece, PieceFormat, check_count};
use crate::proxy::{error::ProxyError, secret_buffer::SecretBuffer};

pub(super) fn find_pieces(body: &str) -> Result<Vec<MessagePiece>, ProxyError> {
    let mut pieces = Vec::new();
    let mut start = 0_usize;
    for field in body.split('&') {
        let end = start.saturating_add(field.len());
        if let Some(equals) = field.find('=') {
            let name = start..start.saturating_add(equals);
            let value = name.end.saturating_add(1)..end;
            pieces.extend(compile_field(body, name, value)?);
        }
        start = end.saturating_add(1);
    }
    check_count(&pieces)?;
    Ok(pieces)
}

/// The form without the fields that are to be removed; `None` if there are none.
pub(in crate::proxy) fn remove_form_fields(
    body: &[u8],
    is_removed: impl Fn(&str) -> bool,
) -> Option<Bytes> {
    let fields = || body.split(|it| *it == b'&');
    let is_kept = |field: &[u8]| !is_removed(&String::from_utf8_lossy(field));
    if fields().all(is_kept) {
        return None;
    }
    let mut output = SecretBuffer::new(body.len(), body.len());
    for (index, field) in fields().filter(|it| is_kept(it)).enumerate() {
        if index > 0 {
            output.push(b"&").ok()?;
        }
        output.push(field).ok()?;
    }
    Some(output.into_bytes())
}

fn compile_field(
    body: &str,
    name: Range<usize>,
    value: Range<usize>,
) -> Result<Option<MessagePiece>, ProxyError> {
    let encoded = body.get(value.clone()).unwrap_or_default();
    if !encoded.contains('{') && !encoded.contains("%7B") && !encoded.contains("%7b") {
        return Ok(None);
    }
    let path = || {
        let name = body.as_bytes().get(name.clone()).unwrap_or_default();
        format!("body.{}", name_path(name).as_str())
    };
    let decoded = decode_value(encoded);
    if memchr::memmem::find(&decoded, b"{{").is_none() {
        return Ok(None);
    }
    let decoded = std::str::from_utf8(&decoded)
        .map_err(|_| ProxyError::invalid(path(), "a value with expressions must be UTF-8 text"))?;
    let text = MessageText::parse(decoded, ExpressionPlace::Body)
        .map_err(|error| FieldError::from_expression_error(path(), error))?;
    Ok(Some(MessagePiece::new(value, PieceFormat::Form { name }, text, body)))
}

/// Decodes `+` and percent escapes. A percent sign without two digits stays.
fn decode_value(encoded: &str) -> Cow<'_, [u8]> {
    let bytes = encoded.as_bytes();
    if !encoded.contains(['+', '%']) {
        return Cow::Borrowed(bytes);
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        rest = match rest {
            [] => return Cow::Owned(decoded),
            [b'%', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |it: &u8| char::from(*it).to_digit(16).unwrap_or_default();
                let byte = digit(high).saturating_mul(16).saturating_add(digit(low));
                decoded.push(u8::try_from(byte).unwrap_or_default());
                after
            }
            [b'+', after @ ..] => {
                decoded.push(b' ');
                after
            }
            [byte, after @ ..] => {
                decoded.push(*byte);
                after
            }
        };
    }
}

/// The path of a field: `card[number]` is `card.number`.
pub(super) fn name_path(encoded_name: &[u8]) -> AttributePath {
    let name = std::str::from_utf8(encoded_name).map(decode_value).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    let mut path = AttributePath::default();
    for step in name.split('[').map(|it| it.trim_end_matches(']')) {
        match step.parse() {
            Ok(index) => path.enter_index(index),
            Err(_) => path.enter(step),
        };
    }
    path
}
