//! `multipart/form-data` bodies: expressions in parts without a file name.
//!
//! The parts are read strictly, because the destination must see the same parts: lines end with a
//! carriage return and a newline, and the boundary occurs only where parts begin and end.

use std::{ops::Range, sync::Arc};

use memchr::memmem;
use scrip_expression::MessagePart;

use super::{
    BodyFormat, CHARSET_RULE,
    content_type::{ContentType, find_parameter},
    find_pieces as find_part_pieces,
    piece::{MessagePiece, body_path, check_count},
};
use crate::proxy::error::ProxyError;

const SYNTAX_RULE: &str = "the body is not valid multipart/form-data";
const BOUNDARY_RULE: &str = "a value contains the boundary of the parts; use another boundary";

const START_RULE: &str = "in a multipart body, the text before an expression must not end like the start of \
    a boundary";

const HEADER_BYTES_MAX: usize = 8 * 1024;

/// The text that separates the parts.
#[derive(Debug)]
pub(super) struct Boundary {
    delimiter: String,
    count: usize,
}

impl Boundary {
    /// A result must not be able to begin a new part.
    pub(super) fn check_unchanged(&self, rendered: &[u8]) -> Result<(), ProxyError> {
        if memmem::find_iter(rendered, self.delimiter.as_bytes()).count() == self.count {
            return Ok(());
        }
        Err(ProxyError::invalid("body", BOUNDARY_RULE))
    }

    /// Checks that no value can complete a boundary together with the text or the value before it: a
    /// client could choose a boundary to test a value.
    pub(super) fn check_pieces(
        &self,
        body: &[u8],
        pieces: &[MessagePiece],
    ) -> Result<(), ProxyError> {
        let (mut follows_value, mut copied) = (false, 0);
        // The text since the last value.
        let mut before = Vec::new();
        for piece in pieces {
            before.extend_from_slice(body.get(copied..piece.span.start).unwrap_or_default());
            for part in piece.text.parts() {
                match part {
                    MessagePart::Text(text) => before.extend_from_slice(text.as_bytes()),
                    MessagePart::Expression(_) => {
                        let continues_value = follows_value
                            && memmem::find(self.delimiter.as_bytes(), &before).is_some();
                        if continues_value || self.is_begun_by(&before) {
                            return Err(ProxyError::invalid(piece.path(body), START_RULE));
                        }
                        before.clear();
                        follows_value = true;
                    }
                }
            }
            copied = piece.span.end;
        }
        Ok(())
    }

    /// Whether the text ends with a start of the delimiter.
    fn is_begun_by(&self, text: &[u8]) -> bool {
        let delimiter = self.delimiter.as_bytes();
        let is_start = |length: usize| delimiter.get(..length).is_some_and(|it| text.ends_with(it));
        (1..=delimiter.len()).any(is_start)
    }
}

fn syntax_error() -> ProxyError {
    ProxyError::invalid("body", SYNTAX_RULE)
}

pub(super) fn find_pieces(
    body: &[u8],
    boundary: String,
) -> Result<(Vec<MessagePiece>, Boundary), ProxyError> {
    let delimiter = format!("--{boundary}");
    let starts: Vec<_> = memmem::find_iter(body, delimiter.as_bytes()).collect();
    let boundary = Boundary { delimiter, count: starts.len() };
    let mut pieces = Vec::new();
    for (index, start) in starts.iter().enumerate() {
        let is_line_start = if index == 0 {
            *start == 0
        } else {
            body.get(..*start).is_some_and(|it| it.ends_with(b"\r\n"))
        };
        let content_start = start.saturating_add(boundary.delimiter.len());
        let after = body.get(content_start..).unwrap_or_default();
        let next = starts.get(index.saturating_add(1));
        match next {
            _ if !is_line_start => return Err(syntax_error()),
            Some(next) if after.starts_with(b"\r\n") => {
                // The line end before the next delimiter belongs to the delimiter.
                let part = content_start.saturating_add(2)..next.saturating_sub(2);
                read_part(body, part, &mut pieces)?;
            }
            None if matches!(after, b"--" | b"--\r\n") => (),
            Some(_) | None => return Err(syntax_error()),
        }
    }
    if starts.is_empty() {
        return Err(syntax_error());
    }
    check_count(&pieces)?;
    Ok((pieces, boundary))
}

fn read_part(
    body: &[u8],
    part: Range<usize>,
    pieces: &mut Vec<MessagePiece>,
) -> Result<(), ProxyError> {
    let bytes = body.get(part.clone()).ok_or_else(syntax_error)?;
    let head_end = memmem::find(bytes, b"\r\n\r\n").ok_or_else(syntax_error)?;
    let head = bytes.get(..head_end).filter(|it| it.len() <= HEADER_BYTES_MAX);
    let head = head.and_then(|it| std::str::from_utf8(it).ok()).ok_or_else(syntax_error)?;
    let head = PartHead::parse(head).ok_or_else(syntax_error)?;
    let content_start = head_end.saturating_add(4);
    let content = bytes.get(content_start..).unwrap_or_default();
    let Some((name, format)) = head.find_text_format()? else { return Ok(()) };
    if !format.may_contain_braces(content) {
        return Ok(());
    }
    let path = || body_path(Some(name));
    if !head.has_utf8_charset() {
        return Err(ProxyError::invalid(path(), CHARSET_RULE));
    }
    let offset = part.start.saturating_add(content_start);
    let name: Arc<str> = name.into();
    let found = find_part_pieces(&format, content)?;
    pieces.extend(found.into_iter().map(|it| it.inside_part(offset, &name)));
    Ok(())
}

/// The headers of a part.
#[derive(Default)]
struct PartHead<'t> {
    disposition: Option<&'t str>,
    content_type: Option<&'t str>,
    transfer_encoding: Option<&'t str>,
}

impl<'t> PartHead<'t> {
    /// `None` if a line is malformed, folded, or given twice.
    fn parse(head: &'t str) -> Option<Self> {
        let mut parsed = Self::default();
        for line in head.split("\r\n") {
            let (name, value) = line.split_once(':')?;
            let is_token = !name.is_empty() && name.bytes().all(|it| it.is_ascii_graphic());
            if !is_token || value.contains(['\r', '\n', '\0']) {
                return None;
            }
            let header = match name.to_ascii_lowercase().as_str() {
                "content-disposition" => &mut parsed.disposition,
                "content-type" => &mut parsed.content_type,
                "content-transfer-encoding" => &mut parsed.transfer_encoding,
                _ => continue,
            };
            if header.replace(value.trim()).is_some() {
                return None;
            }
        }
        Some(parsed)
    }

    /// The name and the format of a part with text; `None` for a file, and for content that is
    /// encoded or no text.
    fn find_text_format(&self) -> Result<Option<(&'t str, BodyFormat)>, ProxyError> {
        let disposition = self.disposition.ok_or_else(syntax_error)?;
        let (kind, parameters) = disposition.split_once(';').unwrap_or((disposition, ""));
        let has = |name: &str| find_parameter(parameters, name).is_some();
        let name = match find_parameter(parameters, "name") {
            Some(std::borrow::Cow::Borrowed(name)) => name,
            // The quoted text, for errors only.
            Some(std::borrow::Cow::Owned(_)) => parameters.split('"').nth(1).unwrap_or_default(),
            None => return Err(syntax_error()),
        };
        if !kind.trim().eq_ignore_ascii_case("form-data") {
            return Err(syntax_error());
        }
        let is_identity = self.transfer_encoding.is_none_or(|encoding| {
            ["7bit", "8bit", "binary"].iter().any(|it| encoding.eq_ignore_ascii_case(it))
        });
        if has("filename") || has("filename*") || !is_identity {
            return Ok(None);
        }
        let format = match self.content_type.map(ContentType::parse) {
            None => BodyFormat::Text,
            Some(Ok(content_type)) => content_type.format,
            Some(Err(_)) => BodyFormat::Other,
        };
        Ok(Some((name, format)))
    }

    fn has_utf8_charset(&self) -> bool {
        let content_type = self.content_type.map(ContentType::parse);
        content_type.and_then(Result::ok).is_none_or(|it| it.has_utf8_charset)
    }
}
