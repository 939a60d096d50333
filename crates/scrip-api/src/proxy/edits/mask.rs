//! Masks: each character of a card number or of another captured text is replaced.

use bytes::Bytes;
use hyper::{
    HeaderMap,
    header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG, HeaderName, HeaderValue},
};
use scrip_core::policy::proxy::transform::{MaskMatcher, MaskPattern};

use super::{
    error::TransformError,
    masked_bytes::{MaskedBytes, mark},
    match_finder::{MatchFinder, WorkAllowance},
    message::TransformMessage,
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
                let work = digits.saturating_mul(stratus::FIELD_CHARACTERS);
                self.work.charge(u64::try_from(work).unwrap_or(u64::MAX))?;
                stratus::find_fields(text)
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
