//! Filters for HTML and URLs.

use super::{FilterResult, Input, text::map_text};
use crate::{
    inner_steps::count,
    value::datum::{Datum, to_text},
};

fn entity(c: char) -> Option<&'static str> {
    match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    }
}

pub(crate) fn escape(text: &str) -> String {
    escape_text(text, |_| false)
}

pub(crate) fn escape_once(text: &str) -> String {
    escape_text(text, is_entity)
}

fn escape_text(text: &str, is_left_alone: fn(&str) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (index, c) in text.char_indices() {
        match entity(c) {
            Some(_) if c == '&' && is_left_alone(text.get(index..).unwrap_or_default()) => {
                escaped.push(c)
            }
            Some(entity) => escaped.push_str(entity),
            None => escaped.push(c),
        }
    }
    escaped
}

/// Whether the text begins with `&name;` or `&#digits;`. Names are short, so the search is limited.
fn is_entity(text: &str) -> bool {
    const NAME_MAX: usize = 32;
    let inner = text.strip_prefix('&').unwrap_or_default();
    // The search stops at any character that is not part of a name, so many `&` in a row are cheap.
    let is_name_byte = |it: &u8| {
        count(1);
        it.is_ascii_alphanumeric() || *it == b'#'
    };
    let name_end = inner.bytes().take(NAME_MAX).take_while(is_name_byte).count();
    if inner.as_bytes().get(name_end) != Some(&b';') {
        return false;
    }
    let name = inner.get(..name_end).unwrap_or_default();
    match name.strip_prefix('#') {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()),
        None => !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphabetic()),
    }
}

pub(crate) fn newline_to_br<'a>(Input { value, budget, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    const BREAK: &str = "<br />\n";
    let text = to_text(&value);
    count(text.len());
    let lines = text.matches('\n').count();
    budget.charge_bytes(lines.saturating_mul(BREAK.len()))?;
    map_text(value, |text| text.replace("\r\n", "\n").replace('\n', BREAK))
}

pub(crate) fn strip_newlines(text: &str) -> String {
    text.replace("\r\n", "").replace('\n', "")
}

/// Removes scripts, styles and comments with their content; removes only the tags of other
/// elements.
pub(crate) fn strip_html(text: &str) -> String {
    // The end of an unclosed element is searched once, not again for each opening.
    let mut unclosed = [false; 4];
    let mut stripped = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some((text_before, after)) = remaining.split_once('<') {
        stripped.push_str(text_before);
        match skip_element(after, &mut unclosed) {
            Some(after) => remaining = after,
            None => {
                stripped.push('<');
                remaining = after;
            }
        }
    }
    stripped + remaining
}

const ELEMENTS: [(&str, &str); 4] =
    [("script", "</script>"), ("style", "</style>"), ("!--", "-->"), ("", ">")];

fn skip_element<'t>(after: &'t str, unclosed: &mut [bool; 4]) -> Option<&'t str> {
    for ((start, end), endless) in ELEMENTS.iter().zip(unclosed) {
        let starts = after.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start));
        if !starts || *endless {
            continue;
        }
        match after.split_once(end) {
            Some((passed, rest)) => {
                count(passed.len());
                return Some(rest);
            }
            None => {
                count(after.len());
                *endless = true;
            }
        }
    }
    None
}

pub(crate) fn url_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            _ => {
                encoded.push('%');
                encoded.push_str(&crate::value::datum::base16(&[byte]));
            }
        }
    }
    encoded
}

pub(crate) fn url_decode<'a>(Input { value, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    const NOT_URL_ENCODED: &str = "this is not URL-encoded text";
    if value.is_null() {
        return Ok(value);
    }
    let text = to_text(&value);
    count(text.len());
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) =
                    (digit().ok_or(NOT_URL_ENCODED)?, digit().ok_or(NOT_URL_ENCODED)?);
                u8::try_from(high.saturating_mul(16).saturating_add(low))
                    .map_err(|_| NOT_URL_ENCODED)?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).map(Datum::from_text).map_err(|_| NOT_URL_ENCODED)
}
