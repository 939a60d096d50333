//! JSON bodies: expressions in text values. Names of properties are not evaluated.

use scrip_core::FieldError;
use scrip_expression::{ExpressionPlace, MessageText};

use super::piece::{MessagePiece, PieceFormat, check_count};
use crate::{
    problem::Problem,
    proxy::{
        error::ProxyError,
        json_scanner::{self, JsonScanError, TextLeaf},
    },
};

pub(super) fn find_pieces(body: &str) -> Result<Vec<MessagePiece>, ProxyError> {
    let mut leaves: Vec<TextLeaf> = Vec::new();
    json_scanner::scan(body, |leaf| {
        if leaf.has_braces {
            leaves.push(leaf);
        }
    })
    .map_err(|error| explain(body, error))?;
    let compile = |leaf: TextLeaf| {
        let text = MessageText::parse(&leaf.decode(body), ExpressionPlace::Body);
        let text = text.map_err(|error| {
            let path = json_scanner::find_path(body, leaf.span.start);
            let path = FieldError::from_expression_error(path.as_str().to_owned(), error);
            ProxyError::from(path.prefix_path("body"))
        })?;
        Ok(MessagePiece::new(leaf.span, PieceFormat::Json, text, body))
    };
    let pieces: Vec<_> = leaves.into_iter().map(compile).collect::<Result<_, ProxyError>>()?;
    check_count(&pieces)?;
    Ok(pieces)
}

/// The rule and its line and column, as for the JSON of other requests.
pub(crate) fn explain(body: &str, error: JsonScanError) -> ProxyError {
    let before = body.as_bytes().get(..error.offset).unwrap_or_default();
    let line = memchr::memchr_iter(b'\n', before).count().saturating_add(1);
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |it| it.saturating_add(1));
    let column = before.len().saturating_sub(line_start).saturating_add(1);
    Problem::Malformed(format!("{} (line {line}, column {column})", error.rule)).into()
}
