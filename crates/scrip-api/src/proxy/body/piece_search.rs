//! Finds the expressions of a body or a part by its content type.

use super::{content_type::BodyFormat, form, json, piece::MessagePiece, text, xml};
use crate::proxy::error::ProxyError;

pub(super) const CHARSET_RULE: &str =
    "a body with expressions must be UTF-8 text; change its charset";

pub(super) fn find_pieces(
    format: &BodyFormat,
    body: &[u8],
) -> Result<Vec<MessagePiece>, ProxyError> {
    let read_utf8 =
        || std::str::from_utf8(body).map_err(|_| ProxyError::invalid("body", CHARSET_RULE));
    match format {
        BodyFormat::Json => json::find_pieces(read_utf8()?),
        BodyFormat::Form => form::find_pieces(read_utf8()?),
        BodyFormat::Xml => xml::find_pieces(read_utf8()?),
        BodyFormat::Text => text::find_pieces(read_utf8()?),
        BodyFormat::Multipart(_) | BodyFormat::Other => Ok(Vec::new()),
    }
}
