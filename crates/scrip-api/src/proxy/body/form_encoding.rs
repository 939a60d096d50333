//! The encoding of names and values in form bodies.

use std::borrow::Cow;

use scrip_core::types::AttributePath;

/// Decodes `+` and percent escapes. A percent sign without two digits stays.
pub(super) fn decode_value(encoded: &str) -> Cow<'_, [u8]> {
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
