//! Form bodies: expressions in the values of fields. Other fields are forwarded byte for byte.

use std::ops::Range;

use bytes::Bytes;
use scrip_core::FieldError;
use scrip_expression::{ExpressionPlace, MessageText};

use super::{
    form_encoding::{decode_value, name_path},
    piece::{MessagePiece, PieceFormat, check_count},
};
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
