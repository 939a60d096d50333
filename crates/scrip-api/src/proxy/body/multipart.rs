//! `multipart/form-data` bodies: expressions in parts without a file name.
//!
//! The parts are read strictly, because the destination must see the same parts: lines end with a
//! carriage return and a newline, and the boundary occurs only where parts begin and end.

use std::{ops::Range, sync::Arc};

use hyper::header::HeaderValue;
use memchr::memmem;

use super::{
    content_type::{BodyFormat, ContentType, find_parameter},
    piece::{MessagePiece, body_path, check_count},
    piece_search::{CHARSET_RULE, find_pieces as find_part_pieces},
};
use crate::proxy::{
    error::ProxyError,
    secret_buffer::{BufferFull, SecretBuffer},
};

const SYNTAX_RULE: &str = "the body is not valid multipart/form-data";
const HEADER_BYTES_MAX: usize = 8 * 1024;

/// Where the parts begin and end.
///
/// The client chose the text there. If the vault compared it with a value, the client would learn about
/// the value, so the vault draws another text for each message.
#[derive(Debug)]
pub(super) struct Boundary {
    /// The length of the client's delimiter, with its dashes.
    length: usize,
    /// In the order of their positions.
    starts: Vec<usize>,
}

/// A new boundary. No value contains it, because it is random.
pub(super) struct DrawnBoundary(String);

impl DrawnBoundary {
    pub(super) fn new(fill_random: fn(&mut [u8])) -> Self {
        let mut bytes = [0; 16];
        fill_random(&mut bytes);
        Self(format!("{:032x}", u128::from_be_bytes(bytes)))
    }

    pub(super) fn content_type(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("multipart/form-data; boundary={}", self.0)).ok()
    }
}

impl Boundary {
    /// Copies a range of the body with the new boundary.
    pub(super) fn copy(
        &self,
        body: &[u8],
        range: Range<usize>,
        drawn: &DrawnBoundary,
        output: &mut SecretBuffer,
    ) -> Result<(), BufferFull> {
        let mut copied = range.start;
        let first = self.starts.partition_point(|it| *it < range.start);
        let starts = self.starts.get(first..).unwrap_or_default();
        for start in starts.iter().take_while(|it| **it < range.end) {
            output.push(body.get(copied..*start).unwrap_or_default())?;
            output.push(b"--")?;
            output.push(drawn.0.as_bytes())?;
            copied = start.saturating_add(self.length);
        }
        output.push(body.get(copied..range.end).unwrap_or_default())
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
    let mut pieces = Vec::new();
    for (index, start) in starts.iter().enumerate() {
        let is_line_start = if index == 0 {
            *start == 0
        } else {
            body.get(..*start).is_some_and(|it| it.ends_with(b"\r\n"))
        };
        let content_start = start.saturating_add(delimiter.len());
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
    Ok((pieces, Boundary { length: delimiter.len(), starts }))
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
