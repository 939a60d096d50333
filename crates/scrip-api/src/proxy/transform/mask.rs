//! Masks: each character of a card number or of another captured text is replaced.

use bytes::Bytes;
use hyper::{HeaderMap, header::CONTENT_TYPE};
use scrip_core::proxy::transform::{MaskMatcher, MaskPattern};

use super::{
    TransformError,
    match_finder::{MatchFinder, WorkAllowance},
    stratus,
};
use crate::proxy::{body::read_charset, secret_buffer::SecretBuffer};

const TEXT_RULE: &str = "cannot be applied: the body is not UTF-8 text";
const CHARSET_RULE: &str = "cannot be applied: the charset of the body is not UTF-8";

/// A mask in another charset would match nothing.
pub(super) fn check_charset(headers: &HeaderMap) -> Result<(), TransformError> {
    for value in headers.get_all(CONTENT_TYPE) {
        let is_utf8 = value.to_str().is_ok_and(read_charset);
        if !is_utf8 {
            return Err(TransformError::Rule(CHARSET_RULE));
        }
    }
    Ok(())
}

/// Replaces every character that the matcher finds, if the work is allowed.
pub(super) fn mask_body(
    matcher: &MaskMatcher,
    replacement: char,
    body: &Bytes,
    bytes_max: usize,
    work: &mut WorkAllowance,
) -> Result<Bytes, TransformError> {
    // Each byte is read at least once.
    work.charge(u64::try_from(body.len()).unwrap_or(u64::MAX))?;
    let text = std::str::from_utf8(body).map_err(|_| TransformError::Rule(TEXT_RULE))?;
    // UTF-16 without a declaration looks like this.
    if text.contains('\0') {
        return Err(TransformError::Rule(TEXT_RULE));
    }
    let masked = match matcher {
        MaskMatcher::Regex(pattern) => find_captured(pattern, text, work)?,
        MaskMatcher::ChaseStratusPan => stratus::find_fields(text),
    };
    if !masked.contains(&true) {
        return Ok(body.clone());
    }
    replace_characters(text, &masked, replacement, bytes_max)
}

/// For each byte, whether it belongs to a masked character.
type MaskedBytes = Vec<bool>;

/// In each match, every occurrence of every captured value.
fn find_captured(
    pattern: &MaskPattern,
    text: &str,
    work: &mut WorkAllowance,
) -> Result<MaskedBytes, TransformError> {
    let mut masked = vec![false; text.len()];
    let mut finder = MatchFinder::new(pattern, text, work);
    let mut at = 0_usize;
    while at <= text.len() {
        let Some(captures) = finder.find(at)? else { break };
        let Some(found) = captures.get_match() else { break };
        let match_text = text.get(found.range()).unwrap_or_default();
        for span in captures.iter().skip(1).flatten() {
            // The captured text itself, also where an overlapping occurrence comes first.
            mark(&mut masked, span.start, span.end);
            let value = text.get(span.range()).filter(|it| !it.is_empty());
            for (offset, value) in value.into_iter().flat_map(|it| match_text.match_indices(it)) {
                let start = found.start().saturating_add(offset);
                mark(&mut masked, start, start.saturating_add(value.len()));
            }
        }
        at = found.end();
        if found.is_empty() {
            let next = text.get(at..).and_then(|it| it.chars().next());
            at = at.saturating_add(next.map_or(1, char::len_utf8));
        }
    }
    Ok(masked)
}

pub(super) fn mark(masked: &mut [bool], start: usize, end: usize) {
    if let Some(range) = masked.get_mut(start..end) {
        range.fill(true);
    }
}

fn replace_characters(
    text: &str,
    masked: &[bool],
    replacement: char,
    bytes_max: usize,
) -> Result<Bytes, TransformError> {
    let mut output = SecretBuffer::new(text.len(), bytes_max);
    let mut encoded = [0; 4];
    let replacement = replacement.encode_utf8(&mut encoded).as_bytes();
    let mut copied = 0_usize;
    for (at, character) in text.char_indices() {
        if masked.get(at) == Some(&true) {
            output.push(text.as_bytes().get(copied..at).unwrap_or_default())?;
            output.push(replacement)?;
            copied = at.saturating_add(character.len_utf8());
        }
    }
    output.push(text.as_bytes().get(copied..).unwrap_or_default())?;
    Ok(output.into_bytes())
}
