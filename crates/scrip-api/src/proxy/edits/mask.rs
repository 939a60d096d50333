//! Masks: each character of a card number or of another captured text is replaced.

use bytes::Bytes;
use hyper::{
    HeaderMap,
    header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG, HeaderName, HeaderValue},
};
use scrip_core::policy::proxy::transform::{MaskMatcher, MaskPattern};

use super::{
    TransformMessage,
    error::TransformError,
    match_finder::{MatchFinder, WorkAllowance},
};
use crate::proxy::{body::read_charset, secret_buffer::SecretBuffer};

const TEXT_RULE: &str = "cannot be applied: the body is not UTF-8 text";
const CHARSET_RULE: &str = "cannot be applied: the charset of the body is not UTF-8";

/// A mask in another charset would match nothing.
pub(in crate::proxy) fn check_charset(headers: &HeaderMap) -> Result<(), TransformError> {
    for value in headers.get_all(CONTENT_TYPE) {
        let is_utf8 = value.to_str().is_ok_and(read_charset);
        if !is_utf8 {
            return Err(TransformError::Rule(CHARSET_RULE));
        }
    }
    Ok(())
}

/// These headers describe a message. A mask would damage them, and they contain no text of the
/// destination.
const UNMASKED_HEADERS: [HeaderName; 3] = [CONTENT_TYPE, CONTENT_LENGTH, DATE];

/// A mask with the work that it may do.
#[derive(Debug)]
pub struct MaskEdit<'m> {
    pub(in crate::proxy) matcher: &'m MaskMatcher,
    pub(in crate::proxy) replacement: char,
    pub(in crate::proxy) bytes_max: usize,
    pub(in crate::proxy) work: WorkAllowance,
}

impl MaskEdit<'_> {
    pub(in crate::proxy) fn apply_to_body(
        &mut self,
        message: &mut TransformMessage,
    ) -> Result<(), TransformError> {
        check_charset(&message.headers)?;
        if let Some(masked) = self.mask_bytes(&message.body)? {
            message.change_body(masked);
        }
        Ok(())
    }

    /// Masks the body and the values of headers. The message stays unchanged if the work is not
    /// enough.
    pub(in crate::proxy) fn apply_to_answer(
        &mut self,
        message: &mut TransformMessage,
    ) -> Result<(), TransformError> {
        let headers = self.mask_headers(&message.headers)?;
        self.apply_to_body(message)?;
        if let Some(headers) = headers {
            message.headers = headers;
        }
        Ok(())
    }

    /// The headers with masked values; `None` if no value matches. A value that is invalid afterwards
    /// is dropped, and so is an `ETag`, which would name another content, and a value in an unknown
    /// charset.
    fn mask_headers(&mut self, headers: &HeaderMap) -> Result<Option<HeaderMap>, TransformError> {
        let mut masked_headers = HeaderMap::with_capacity(headers.len());
        let mut is_changed = false;
        for (name, value) in headers {
            if UNMASKED_HEADERS.contains(name) {
                masked_headers.append(name, value.clone());
                continue;
            }
            match self.mask_bytes(value.as_bytes()) {
                Ok(None) => {
                    masked_headers.append(name, value.clone());
                }
                Ok(Some(masked)) => {
                    is_changed = true;
                    if name != ETAG
                        && let Ok(masked) = HeaderValue::from_bytes(&masked)
                    {
                        masked_headers.append(name, masked);
                    }
                }
                Err(TransformError::Rule(_) | TransformError::TooLarge) => is_changed = true,
                Err(error) => return Err(error),
            }
        }
        Ok(is_changed.then_some(masked_headers))
    }

    /// Replaces every character that the matcher finds, if the work is allowed. `None` if there is
    /// none.
    fn mask_bytes(&mut self, bytes: &[u8]) -> Result<Option<Bytes>, TransformError> {
        // Each byte is read at least once.
        self.work.charge(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
        let text = std::str::from_utf8(bytes).map_err(|_| TransformError::Rule(TEXT_RULE))?;
        // UTF-16 without a declaration looks like this.
        if text.contains('\0') {
            return Err(TransformError::Rule(TEXT_RULE));
        }
        let masked = match self.matcher {
            MaskMatcher::Regex(pattern) => find_captured(pattern, text, &mut self.work)?,
            MaskMatcher::ChaseStratusPan => {
                // The check digit is computed at each digit.
                let digits = bytes.iter().filter(|it| it.is_ascii_digit()).count();
                let work = digits.saturating_mul(FIELD_CHARACTERS);
                self.work.charge(u64::try_from(work).unwrap_or(u64::MAX))?;
                find_fields(text)
            }
        };
        if !masked.contains(&true) {
            return Ok(None);
        }
        replace_characters(text, &masked, self.replacement, self.bytes_max).map(Some)
    }
}

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

/// Characters of the card number field in the fixed-width messages of Chase Stratus: the number, then
/// blanks. The layout of the messages is not public, so the field is found by its form: a card number
/// with a valid check digit that blanks fill to this length, or that the end of a line cuts short. A
/// number that only looks like a card number is masked too: that is better than to show a card.
const FIELD_CHARACTERS: usize = 19;
const DIGITS_MIN: usize = 12;

pub(super) fn find_fields(text: &str) -> MaskedBytes {
    let mut masked = vec![false; text.len()];
    let bytes = text.as_bytes();
    let mut run_start = 0_usize;
    while let Some(offset) =
        bytes.get(run_start..).and_then(|it| it.iter().position(u8::is_ascii_digit))
    {
        run_start = run_start.saturating_add(offset);
        let run = bytes.get(run_start..).unwrap_or_default();
        let digits = run.iter().take_while(|it| it.is_ascii_digit()).count();
        let run_end = run_start.saturating_add(digits);
        mask_run(bytes, run_start, run_end, &mut masked);
        run_start = run_end;
    }
    masked
}

/// Masks the fields of one run of digits. Digits of the field before may precede the number.
fn mask_run(bytes: &[u8], run_start: usize, run_end: usize, masked: &mut [bool]) {
    let after = bytes.get(run_end..).unwrap_or_default();
    let blanks = after.iter().take(FIELD_CHARACTERS).take_while(|it| **it == b' ').count();
    let is_cut_short = matches!(after.get(blanks), None | Some(b'\r' | b'\n'));
    let is_field = |start: usize, end: usize| {
        let digits = end.saturating_sub(start);
        let padding = FIELD_CHARACTERS.saturating_sub(digits);
        let has_padding = padding == 0 || (end == run_end && (blanks >= padding || is_cut_short));
        let number = bytes.get(start..end).unwrap_or_default();
        (DIGITS_MIN..=FIELD_CHARACTERS).contains(&digits) && has_padding && has_check_digit(number)
    };
    let mut mask_field = |start: usize, end: usize| {
        if is_field(start, end) {
            let field_end = start.saturating_add(FIELD_CHARACTERS);
            mark(masked, start, field_end.min(run_end.saturating_add(blanks)));
        }
    };
    for start in run_start..run_end {
        let full_end = start.saturating_add(FIELD_CHARACTERS);
        if full_end < run_end {
            mask_field(start, full_end);
        } else {
            mask_field(start, run_end);
        }
    }
}

fn has_check_digit(number: &[u8]) -> bool {
    let sum = number.iter().rev().enumerate().fold(0_u32, |sum, (index, digit)| {
        let digit = u32::from(digit.saturating_sub(b'0'));
        let doubled = if index % 2 == 1 { digit.saturating_mul(2) } else { digit };
        sum.saturating_add(doubled / 10).saturating_add(doubled % 10)
    });
    sum % 10 == 0 && sum > 0
}

/// For each byte, whether it belongs to a masked character.
pub(super) type MaskedBytes = Vec<bool>;

/// Marks a range.
pub(in crate::proxy) fn mark(masked: &mut [bool], start: usize, end: usize) {
    if let Some(range) = masked.get_mut(start..end) {
        range.fill(true);
    }
}
