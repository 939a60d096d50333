//! Checks the path of a request, which is appended to a base URL.
//!
//! Destinations decode paths in different ways, some more than once. Every reading of the path that
//! some server is known to have must stay below the base path.

use std::borrow::Cow;

use super::{
    PathError,
    percent_encoding::{decode_completely, is_encoded},
};

/// # Errors
/// The path would leave the base path, or contains a control character or invalid UTF-8 text.
pub(super) fn check_path(path: &str) -> Result<(), PathError> {
    /// Normalized text can be encoded again. Longer chains have no use.
    const ROUNDS_MAX: usize = 3;
    if !path.contains('.') && !path.contains('%') {
        return Ok(());
    }
    let mut decoded = Cow::Borrowed(path);
    for _ in 0..ROUNDS_MAX {
        // Invalid text includes the overlong forms of dots, which some servers accept.
        let bytes = decode_completely(decoded.as_bytes());
        let text = String::from_utf8(bytes).map_err(|_| PathError::InvalidCharacter)?;
        let text = normalize(&text);
        if text.split(is_separator).any(is_climbing) {
            return Err(PathError::LeavesBasePath);
        }
        if text.contains(char::is_control) {
            return Err(PathError::InvalidCharacter);
        }
        if !is_encoded(text.as_bytes()) {
            return Ok(());
        }
        decoded = Cow::Owned(text);
    }
    Err(PathError::InvalidCharacter)
}

/// Some servers ignore the part of a segment that follows a semicolon.
fn is_separator(character: char) -> bool {
    matches!(character, '/' | '\\' | ';' | '\0')
}

/// Some servers trim a segment, or cut it at a delimiter that was encoded. So only a name may follow
/// two dots.
fn is_climbing(segment: &str) -> bool {
    let is_name = |it: char| it.is_alphanumeric() || matches!(it, '.' | '-' | '_' | '~');
    let is_trimmed = |it: char| it.is_whitespace() || it.is_control();
    let after_dots = segment.trim_start_matches(is_trimmed).strip_prefix("..");
    after_dots.is_some_and(|it| !it.starts_with(is_name))
}

/// Replaces the characters that compatibility normalization of Unicode (NFKC) makes dots,
/// separators or percent signs, and the slashes that old character sets make of others.
fn normalize(text: &str) -> String {
    let mut normalized = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{ff0e}' | '\u{fe52}' | '\u{2024}' => normalized.push('.'),
            '\u{2025}' => normalized.push_str(".."),
            '\u{ff0f}' | '\u{2044}' | '\u{2215}' => normalized.push('/'),
            '\u{ff3c}' | '\u{fe68}' | '\u{2216}' => normalized.push('\\'),
            '\u{ff1b}' | '\u{fe54}' => normalized.push(';'),
            '\u{ff05}' | '\u{fe6a}' => normalized.push('%'),
            character => normalized.push(character),
        }
    }
    normalized
}
