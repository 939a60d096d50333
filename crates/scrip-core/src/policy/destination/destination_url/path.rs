//! Checks the path of a request, which is appended to a base URL.
//!
//! Destinations decode paths in different ways, some more than once. Every reading of the path that
//! some server is known to have must stay below the base path.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// Errors: the path would leave the base path, or contains a control character or invalid UTF-8
/// text.
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

/// Applies the compatibility normalization of Unicode (NFKC), which some servers apply to paths, and
/// replaces the slashes that old character sets make of other characters.
fn normalize(text: &str) -> String {
    let replace_slash = |character| match character {
        '\u{2044}' | '\u{2215}' => '/',
        '\u{2216}' => '\\',
        character => character,
    };
    text.nfkc().map(replace_slash).collect()
}

/// The path or query of a request that cannot be appended to a base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path must not contain .. segments")]
    LeavesBasePath,
    #[error(
        "the path and the query must consist of visible ASCII characters without #, and the decoded \
         path of UTF-8 text without control characters"
    )]
    InvalidCharacter,
    #[error("the path and the query must have at most 16384 bytes")]
    TooLong,
}

/// Decodes once. `None` if no character was encoded. The result is shorter than the input.
pub(super) fn percent_decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut remaining = bytes;
    while let [first, tail @ ..] = remaining {
        match (decode_triple(remaining), tail) {
            (Some(byte), [_, _, tail @ ..]) => {
                decoded.push(byte);
                remaining = tail;
            }
            (Some(_) | None, _) => {
                decoded.push(*first);
                remaining = tail;
            }
        }
    }
    (decoded.len() < bytes.len()).then_some(decoded)
}

/// Decodes until nothing is encoded, in one pass: a chain such as `%252525…` must not cost a pass
/// for each link.
pub(super) fn decode_completely(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    for byte in bytes {
        decoded.push(*byte);
        // Each replacement removes two bytes, so their number is limited by the input.
        while let Some(start) = decoded.len().checked_sub(3) {
            let Some(byte) = decoded.get(start..).and_then(decode_triple) else { break };
            decoded.truncate(start);
            decoded.push(byte);
        }
    }
    decoded
}

pub(super) fn is_encoded(bytes: &[u8]) -> bool {
    bytes.windows(3).any(|it| decode_triple(it).is_some())
}

/// Decodes the first three bytes, if they are an encoded byte.
fn decode_triple(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    Some((hex_digit(*high)? << 4) | hex_digit(*low)?)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok())
}
