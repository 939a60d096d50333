//! Text, digits, ids and base64.

use std::net::IpAddr;

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_types::hex::encode_hex;

use crate::{
    fault::ErrorCode,
    format::{CheckedText, FormatRule, ensure_format},
};

/// Any characters except control characters. The length counts characters.
pub type Text<const MIN: usize, const MAX: usize> = CheckedText<TextRule<MIN, MAX>>;
/// ASCII digits.
pub type Digits<const MIN: usize, const MAX: usize> = CheckedText<DigitsRule<MIN, MAX>>;
/// ASCII letters and digits.
pub type Alphanumeric<const MIN: usize, const MAX: usize> = CheckedText<AlphanumericRule<MIN, MAX>>;
/// A UUID in the form of RFC 4122.
pub type TransId = CheckedText<TransIdRule>;
/// A cryptogram of 20 bytes.
pub type AuthenticationValue = CheckedText<AuthenticationValueRule>;
/// A JOSE object in compact serialization: base64url parts with dots between them.
pub type JoseCompact<const PARTS: usize, const MAX: usize> =
    CheckedText<JoseCompactRule<PARTS, MAX>>;
/// An offset in minutes, such as `-330`.
pub type ZoneOffset = CheckedText<ZoneOffsetRule>;

#[derive(Debug)]
pub struct TextRule<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> FormatRule for TextRule<MIN, MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let has_valid_length =
            (MIN..=MAX).contains(&text.chars().take(MAX.saturating_add(1)).count());
        ensure_format(has_valid_length && !text.chars().any(char::is_control))
    }
}

#[derive(Debug)]
pub struct DigitsRule<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> FormatRule for DigitsRule<MIN, MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        ensure_format(
            (MIN..=MAX).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit()),
        )
    }
}

#[derive(Debug)]
pub struct AlphanumericRule<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> FormatRule for AlphanumericRule<MIN, MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let is_alphanumeric = text.bytes().all(|it| it.is_ascii_alphanumeric());
        ensure_format((MIN..=MAX).contains(&text.len()) && is_alphanumeric)
    }
}

#[derive(Debug)]
pub struct TransIdRule;

impl FormatRule for TransIdRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let fits = |(at, byte): (usize, u8)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        ensure_format(text.len() == 36 && text.bytes().enumerate().all(fits))
    }
}

impl TransId {
    /// From the bytes of a UUID, or from random bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let mut text = encode_hex(&bytes);
        for place in [20, 16, 12, 8] {
            text.insert(place, '-');
        }
        Self::from_trusted(&text)
    }
}

impl AuthenticationValue {
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self::from_trusted(&STANDARD.encode(bytes))
    }
}

#[derive(Debug)]
pub struct AuthenticationValueRule;

impl FormatRule for AuthenticationValueRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        ensure_format(STANDARD.decode(text).is_ok_and(|it| it.len() == 20))
    }
}

#[derive(Debug)]
pub struct JoseCompactRule<const PARTS: usize, const MAX: usize>;

impl<const PARTS: usize, const MAX: usize> FormatRule for JoseCompactRule<PARTS, MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let is_allowed = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
        let has_all_parts = text.split('.').count() == PARTS && !text.starts_with('.');
        ensure_format(text.len() <= MAX && has_all_parts && text.bytes().all(is_allowed))
    }
}

#[derive(Debug)]
pub struct ZoneOffsetRule;

impl FormatRule for ZoneOffsetRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        // Some browsers report fractions of minutes for historical time zones.
        let is_numeric = digits.bytes().all(|it| it.is_ascii_digit() || it == b'.');
        let starts_with_digit = digits.bytes().next().is_some_and(|it| it.is_ascii_digit());
        ensure_format((1..=5).contains(&text.len()) && is_numeric && starts_with_digit)
    }
}

/// A fully qualified `http` or `https` URL. Other URLs are rejected, because browsers are sent to
/// it.
pub type Url<const MAX: usize> = CheckedText<UrlRule<MAX>>;
/// An email address.
pub type Email = CheckedText<EmailRule>;
/// IPv4 or IPv6.
pub type Ip = CheckedText<IpRule>;

#[derive(Debug)]
pub struct UrlRule<const MAX: usize>;

impl<const MAX: usize> FormatRule for UrlRule<MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let lower_case_start = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let scheme =
            ["https://", "http://"].into_iter().find(|it| lower_case_start.starts_with(it));
        let after_scheme = scheme.and_then(|it| text.get(it.len()..)).unwrap_or_default();
        let host = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
        let is_allowed =
            |it: u8| it.is_ascii_graphic() && !matches!(it, b'"' | b'<' | b'>' | b'\\');
        // User information in front of the host would mislead readers of the URL.
        let is_plain_host = !host.is_empty() && !host.starts_with(':') && !host.contains('@');
        ensure_format(text.len() <= MAX && is_plain_host && text.bytes().all(is_allowed))
    }
}

#[derive(Debug)]
pub struct EmailRule;

impl FormatRule for EmailRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let parts = text.rsplit_once('@');
        let is_allowed = |it: char| !it.is_control() && !it.is_whitespace();
        let has_both_parts =
            parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
        ensure_format(text.chars().count() <= 254 && has_both_parts && text.chars().all(is_allowed))
    }
}

#[derive(Debug)]
pub struct IpRule;

impl FormatRule for IpRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        ensure_format(text.len() <= 45 && text.parse::<IpAddr>().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_bytes_writes_values_that_parse_accepts() {
        let id = TransId::from_bytes([
            0x8a, 0x88, 0x0d, 0xc0, 0xd2, 0xd2, 0x40, 0x67, 0, 1, 2, 3, 4, 5, 6, 7,
        ]);
        assert_eq!(id.expose(), "8a880dc0-d2d2-4067-0001-020304050607");
        assert_eq!(
            AuthenticationValue::from_bytes([0xff; 20]).expose(),
            "//////////////////////////8="
        );
        assert!(TransId::parse(id.expose()).is_ok());
        assert!(
            AuthenticationValue::parse(AuthenticationValue::from_bytes([7; 20]).expose()).is_ok()
        );
    }
}
