//! The content type of a body decides how expressions are found and how results are written.

use std::borrow::Cow;

use hyper::{HeaderMap, header::CONTENT_TYPE};
use memchr::memmem;

use crate::proxy::error::ProxyError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyFormat {
    Json,
    Form,
    Xml,
    /// `multipart/form-data`, with its boundary.
    Multipart(String),
    Text,
    /// Forwarded untouched.
    Other,
}

pub(super) struct ContentType {
    pub(super) format: BodyFormat,
    /// Whether the charset is UTF-8 or ASCII, or not stated.
    pub(super) has_utf8_charset: bool,
}

const BOUNDARY_CHARACTERS_MAX: usize = 70;

/// Errors: there are several content types: the destination may take another one than the proxy.
pub(super) fn read_format(headers: &HeaderMap) -> Result<ContentType, ProxyError> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let Some(value) = values.next() else { return Ok(ContentType::other()) };
    let text = value.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default();
    if values.next().is_some() || essence.contains(',') {
        return Err(ProxyError::invalid("headers.Content-Type", "must be sent once"));
    }
    ContentType::parse(text).map_err(|rule| ProxyError::invalid("headers.Content-Type", rule))
}

impl ContentType {
    fn other() -> Self {
        Self { format: BodyFormat::Other, has_utf8_charset: true }
    }

    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
        let essence = essence.trim().to_ascii_lowercase();
        let has_suffix = |suffix: &str| {
            essence.split_once('/').is_some_and(|(_, subtype)| subtype.ends_with(suffix))
        };
        let format = match essence.as_str() {
            "application/json" => BodyFormat::Json,
            "application/x-www-form-urlencoded" => BodyFormat::Form,
            "application/xml" | "text/xml" => BodyFormat::Xml,
            "multipart/form-data" => BodyFormat::Multipart(read_boundary(parameters)?),
            _ if has_suffix("+json") => BodyFormat::Json,
            _ if has_suffix("+xml") => BodyFormat::Xml,
            essence if essence.starts_with("text/") => BodyFormat::Text,
            _ => BodyFormat::Other,
        };
        Ok(Self { format, has_utf8_charset: read_charset(text) })
    }
}

/// Whether a body of this content type is JSON.
pub(crate) fn is_json_type(content_type: &str) -> bool {
    ContentType::parse(content_type).is_ok_and(|it| it.format == BodyFormat::Json)
}

/// Whether the charset of a content type is UTF-8 or ASCII, or not stated.
pub(crate) fn read_charset(content_type: &str) -> bool {
    let parameters = content_type.split_once(';').map_or("", |it| it.1);
    let is_utf8 =
        |it: &str| ["utf-8", "utf8", "us-ascii"].iter().any(|name| it.eq_ignore_ascii_case(name));
    // Of two charsets, another program may use the second one. A quote without an end hides the
    // parameters after it.
    Parameters(parameters).all(|it| match it {
        Parameter { name, value: Some(value) } if name.eq_ignore_ascii_case("charset") => {
            is_utf8(&value)
        }
        parameter => !parameter.is_extended("charset"),
    }) && parameters.bytes().filter(|it| *it == b'"').count().is_multiple_of(2)
}

fn read_boundary(parameters: &str) -> Result<String, &'static str> {
    let mut boundaries =
        Parameters(parameters).filter(|it| it.name.eq_ignore_ascii_case("boundary"));
    let boundary = boundaries.next().and_then(|it| it.value).unwrap_or_default();
    let is_ambiguous =
        boundaries.next().is_some() || Parameters(parameters).any(|it| it.is_extended("boundary"));
    let is_boundary_byte = |it: u8| it.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&it);
    let is_valid = (1..=BOUNDARY_CHARACTERS_MAX).contains(&boundary.len())
        && boundary.bytes().all(is_boundary_byte)
        && !boundary.ends_with(' ')
        && !is_ambiguous;
    if is_valid { Ok(boundary.into_owned()) } else { Err("must have a valid boundary") }
}

/// The value of a parameter, without quotes.
pub(super) fn find_parameter<'p>(parameters: &'p str, name: &str) -> Option<Cow<'p, str>> {
    Parameters(parameters).find(|it| it.name.eq_ignore_ascii_case(name)).and_then(|it| it.value)
}

struct Parameter<'p> {
    name: &'p str,
    /// Without quotes.
    value: Option<Cow<'p, str>>,
}

impl Parameter<'_> {
    /// Whether the parameter is an encoded form or a part of another one: `charset*`, `charset*0`.
    fn is_extended(&self, name: &str) -> bool {
        self.name.split_once('*').is_some_and(|(it, _)| it.eq_ignore_ascii_case(name))
    }
}

/// Reads parameters one after the other, from the text that remains. A parameter may have no value.
struct Parameters<'p>(&'p str);

impl<'p> Iterator for Parameters<'p> {
    type Item = Parameter<'p>;

    fn next(&mut self) -> Option<Parameter<'p>> {
        let text = self.0.trim_start_matches([' ', '\t', ';']);
        if text.is_empty() {
            return None;
        }
        let end = text.find(['=', ';']).unwrap_or(text.len());
        let (name, after) = text.split_at(end);
        let (value, after) = match after.strip_prefix('=') {
            Some(after) => {
                let (value, after) = read_parameter_value(after);
                (Some(value), after)
            }
            None => (None, after),
        };
        self.0 = after;
        Some(Parameter { name: name.trim(), value })
    }
}

fn read_parameter_value(text: &str) -> (Cow<'_, str>, &str) {
    let text = text.trim_start();
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, after) = text.split_once(';').unwrap_or((text, ""));
        return (Cow::Borrowed(value.trim()), after);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => {
                let after = quoted.get(at.saturating_add(1)..).unwrap_or_default();
                return (Cow::Owned(value), after.split_once(';').map_or("", |it| it.1));
            }
            '\\' => value.extend(characters.next().map(|it| it.1)),
            c => value.push(c),
        }
    }
    (Cow::Owned(value), "")
}

impl BodyFormat {
    /// Whether the body may contain an expression. Most bodies without one end here.
    pub(super) fn may_contain_braces(&self, body: &[u8]) -> bool {
        let has = |needle: &str| memmem::find(body, needle.as_bytes()).is_some();
        match self {
            Self::Json => has("{{") || (has_escaped_brace(body) && has_brace_pair(body)),
            Self::Form => has("{{") || has("%7B") || has("%7b"),
            Self::Xml | Self::Text | Self::Multipart(_) => has("{{"),
            Self::Other => false,
        }
    }
}

const ESCAPED_BRACE_BYTES: usize = 6;

fn is_escaped_brace(body: &[u8], at: usize) -> bool {
    let end = at.saturating_add(ESCAPED_BRACE_BYTES);
    body.get(at..end).is_some_and(|it| matches!(it, b"\\u007b" | b"\\u007B"))
}

fn has_escaped_brace(body: &[u8]) -> bool {
    memmem::find_iter(body, b"\\u007").any(|at| is_escaped_brace(body, at))
}

/// Whether two braces follow each other, each written as itself or as an escape. The text need not
/// be valid JSON.
fn has_brace_pair(body: &[u8]) -> bool {
    let (mut at, mut is_after_brace) = (0_usize, false);
    while let Some(byte) = body.get(at) {
        let length = match byte {
            b'{' => Some(1),
            b'\\' if is_escaped_brace(body, at) => Some(ESCAPED_BRACE_BYTES),
            _ => None,
        };
        if is_after_brace && length.is_some() {
            return true;
        }
        is_after_brace = length.is_some();
        at = at.saturating_add(length.unwrap_or(1));
    }
    false
}
