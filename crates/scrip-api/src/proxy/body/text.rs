//! Text bodies: expressions anywhere, results without escapes.

use scrip_core::FieldError;
use scrip_expression::{ExpressionError, ExpressionPlace, MessageText};

use super::piece::{MessagePiece, PieceFormat, check_count};
use crate::proxy::error::ProxyError;

pub(super) fn find_pieces(body: &str) -> Result<Vec<MessagePiece>, ProxyError> {
    let mut pieces = Vec::new();
    let mut start = 0_usize;
    while let Some(found) = body.get(start..).and_then(|it| it.find("{{")) {
        start = start.saturating_add(found);
        let rest = body.get(start..).unwrap_or_default();
        let (text, length) = MessageText::read_expression(rest, ExpressionPlace::Body)
            .map_err(|error| explain(body, start, error))?;
        let end = start.saturating_add(length);
        pieces.push(MessagePiece::new(start..end, PieceFormat::Plain, text, body));
        start = end;
    }
    check_count(&pieces)?;
    Ok(pieces)
}

/// An error at a position after this byte of the body.
pub(super) fn explain(body: &str, offset: usize, error: ExpressionError) -> ProxyError {
    let before = body.get(..offset).unwrap_or_default().chars().count();
    let position = before.saturating_add(error.position);
    let error = ExpressionError { position, ..error };
    FieldError::from_expression_error("body", error).into()
}
