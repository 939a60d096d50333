//! Plain texts, digits, ids and base64.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    fault::ErrorCode,
    format::{Checked, Rule, holds},
};

/// Any characters but control characters, counted as characters.
pub type Text<const MIN: usize, const MAX: usize> = Checked<TextRule<MIN, MAX>>;
/// ASCII digits.
pub type Digits<const MIN: usize, const MAX: usize> = Checked<DigitsRule<MIN, MAX>>;
/// ASCII letters and digits.
pub type Alphanumeric<const MIN: usize, const MAX: usize> = Checked<AlphanumericRule<MIN, MAX>>;
/// A UUID as RFC 4122 writes it.
pub type TransId = Checked<TransIdRule>;
/// A cryptogram of twenty bytes.
pub type AuthenticationValue = Checked<AuthenticationValueRule>;
/// Text of a JOSE object: base64url parts with dots between them.
pub type Compact<const PARTS: usize, const MAX: usize> = Checked<CompactRule<PARTS, MAX>>;
/// An offset in minutes, such as `-330`.
pub type ZoneOffset = Checked<ZoneOffsetRule>;

#[derive(Debug)]
pub struct TextRule<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> Rule for TextRule<MIN, MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let short = (MIN..=MAX).contains(&text.chars().take(MAX.saturating_add(1)).count());
        holds(short && !text.chars().any(char::is_control))
    }
}

#[derive(Debug)]
pub struct DigitsRule<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> Rule for DigitsRule<MIN, MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        holds((MIN..=MAX).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit()))
    }
}

#[derive(Debug)]
pub struct AlphanumericRule<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> Rule for AlphanumericRule<MIN, MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let known = text.bytes().all(|it| it.is_ascii_alphanumeric());
        holds((MIN..=MAX).contains(&text.len()) && known)
    }
}

#[derive(Debug)]
pub struct TransIdRule;

impl Rule for TransIdRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let fits = |(at, byte): (usize, u8)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        holds(text.len() == 36 && text.bytes().enumerate().all(fits))
    }
}

impl TransId {
    /// Of bytes that are a UUID, or chance.
    #[must_use]
    pub fn of(bytes: [u8; 16]) -> Self {
        let mut text = String::with_capacity(36);
        for (at, byte) in bytes.into_iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        Self::ours(&text)
    }
}

impl AuthenticationValue {
    #[must_use]
    pub fn of(bytes: [u8; 20]) -> Self {
        Self::ours(&STANDARD.encode(bytes))
    }
}

#[derive(Debug)]
pub struct AuthenticationValueRule;

impl Rule for AuthenticationValueRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        holds(STANDARD.decode(text).is_ok_and(|it| it.len() == 20))
    }
}

#[derive(Debug)]
pub struct CompactRule<const PARTS: usize, const MAX: usize>;

impl<const PARTS: usize, const MAX: usize> Rule for CompactRule<PARTS, MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let known = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
        let parts = text.split('.').count() == PARTS && !text.starts_with('.');
        holds(text.len() <= MAX && parts && text.bytes().all(known))
    }
}

#[derive(Debug)]
pub struct ZoneOffsetRule;

impl Rule for ZoneOffsetRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        // Some browsers tell fractions of minutes, of zones older than a century.
        let known = digits.bytes().all(|it| it.is_ascii_digit() || it == b'.');
        let begins = digits.bytes().next().is_some_and(|it| it.is_ascii_digit());
        holds((1..=5).contains(&text.len()) && known && begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_what_would_be_read() {
        let id =
            TransId::of([0x8a, 0x88, 0x0d, 0xc0, 0xd2, 0xd2, 0x40, 0x67, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(id.expose(), "8a880dc0-d2d2-4067-0001-020304050607");
        assert_eq!(AuthenticationValue::of([0xff; 20]).expose(), "//////////////////////////8=");
        assert!(TransId::parse(id.expose()).is_ok());
        assert!(AuthenticationValue::parse(AuthenticationValue::of([7; 20]).expose()).is_ok());
    }
}
