//! The body of a proxied request: its expressions are found by content type, and the body is
//! forwarded byte for byte except for them.

mod content_type;
mod form;
mod form_encoding;
mod json;
mod multipart;
mod piece;
mod piece_search;
mod text;
mod xml;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use bytes::Bytes;
use hyper::{
    HeaderMap,
    header::{CONTENT_ENCODING, HeaderValue},
};
use scrip_core::{
    FieldError,
    expression::{ValueCounting, evaluate_message},
    policy::proxy::transform::LocationStep,
    work_meter::WorkMeter,
};
use scrip_expression::{
    ExpressionError, FilteredPath, MessageInputs, MessageSource, Reference, ResolveReference,
    Scope, UNKNOWN_REFERENCE,
};
use serde_json::Value;

pub(crate) use self::content_type::{is_json_type, read_charset};
pub(in crate::proxy) use self::form::remove_form_fields;
pub use self::{content_type::BodyFormat, piece::SourceCounting};
use self::{
    content_type::read_format,
    multipart::{Boundary, DrawnBoundary},
    piece::{MessagePiece, PieceError, PieceFormat},
    piece_search::{CHARSET_RULE, find_pieces},
};
use crate::proxy::{
    error::ProxyError,
    json_scanner::crosses_value,
    secret_buffer::{BufferFull, SecretBuffer},
};

/// A body with its expressions compiled.
#[derive(Debug)]
pub struct MessageBody {
    original: Bytes,
    /// In the order of their positions.
    pieces: Vec<MessagePiece>,
    references: Vec<MessageReference>,
    boundary: Option<Boundary>,
}

/// A token or an intent that the body names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageReference {
    pub reference: Reference,
    /// Whether an expression takes the CVC, or a part of the data that can contain the CVC.
    pub reads_cvc: bool,
    /// The parts of the data that filters change.
    pub filtered: Vec<FilteredPath>,
}

/// The values for the expressions of a body, and the limits of their evaluation.
#[derive(Clone, Copy)]
pub struct BodyInputs<'v> {
    pub references: &'v dyn ResolveReference,
    /// The configuration of the proxy, an object of texts.
    pub configuration: &'v Value,
    pub work: &'v WorkMeter,
    pub fill_random: fn(&mut [u8]),
    /// The maximum length of the rendered body.
    pub bytes_max: usize,
    pub counting: SourceCounting,
}

/// A body with the results of its expressions.
#[derive(Debug)]
pub struct RenderedBody {
    /// In memory that is wiped, if there is an expression.
    pub bytes: Bytes,
    /// The length, with values as they count.
    pub counted_bytes: usize,
    /// Another content type than that of the client: the parts have a new boundary.
    pub content_type: Option<HeaderValue>,
}

/// Where a body may have expressions, before they are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpressionSearch {
    Nowhere,
    Anywhere,
    /// In parts without a file name.
    InParts,
}

impl std::fmt::Debug for BodyInputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BodyInputs")
    }
}

enum RenderError {
    Expression { piece: usize, cause: ExpressionError },
    Rule { piece: usize, rule: &'static str },
    TooLarge,
}

impl MessageBody {
    /// A body that is forwarded as it is: the caller has no key, or the proxy does not detokenize.
    /// Errors: the request has several content types, or a form with too many fields.
    pub(crate) fn without_expressions(
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Self, ProxyError> {
        check_fields(&read_format(headers)?.format, &body)?;
        Ok(Self::unchanged(body))
    }

    fn unchanged(original: Bytes) -> Self {
        Self { original, pieces: Vec::new(), references: Vec::new(), boundary: None }
    }

    /// Finds out whether there may be expressions. This takes much less time than compiling them.
    /// Errors: the request has several content types.
    pub fn search(headers: &HeaderMap, body: &[u8]) -> Result<ExpressionSearch, ProxyError> {
        let format = read_format(headers)?.format;
        Ok(match format {
            _ if headers.contains_key(CONTENT_ENCODING) => ExpressionSearch::Nowhere,
            format if !format.may_contain_braces(body) => ExpressionSearch::Nowhere,
            BodyFormat::Multipart(_) => ExpressionSearch::InParts,
            BodyFormat::Json
            | BodyFormat::Form
            | BodyFormat::Xml
            | BodyFormat::Text
            | BodyFormat::Other => ExpressionSearch::Anywhere,
        })
    }

    /// Finds and compiles the expressions.
    ///
    /// Errors: the request has several content types, a form has too many fields, an expression is
    /// invalid, or the body has an expression and violates a rule of its content type.
    pub fn parse(headers: &HeaderMap, body: Bytes) -> Result<Self, ProxyError> {
        let content_type = read_format(headers)?;
        check_fields(&content_type.format, &body)?;
        if headers.contains_key(CONTENT_ENCODING) || !content_type.format.may_contain_braces(&body)
        {
            return Ok(Self::unchanged(body));
        }
        if !content_type.has_utf8_charset {
            return Err(ProxyError::invalid("body", CHARSET_RULE));
        }
        let mut boundary = None;
        let pieces = match content_type.format {
            BodyFormat::Multipart(text) => {
                let (pieces, found) = multipart::find_pieces(&body, text)?;
                boundary = Some(found);
                pieces
            }
            format @ (BodyFormat::Json
            | BodyFormat::Form
            | BodyFormat::Xml
            | BodyFormat::Text
            | BodyFormat::Other) => find_pieces(&format, &body)?,
        };
        let references = collect_references(&pieces);
        Ok(Self { original: body, pieces, references, boundary })
    }

    pub fn has_expressions(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// The distinct tokens and intents. A token that is named in two ways is listed twice.
    pub fn references(&self) -> &[MessageReference] {
        &self.references
    }

    /// Whether a filter changes a value of the configuration.
    pub(crate) fn computes_configuration(&self) -> bool {
        let mut expressions = self.pieces.iter().flat_map(MessagePiece::expressions);
        expressions.any(|it| {
            matches!(it.source(), MessageSource::Configuration(_)) && it.filtered_path().is_some()
        })
    }

    /// Checks that all tokens and intents exist. This does not depend on their data.
    /// Errors: a token or an intent is unknown.
    pub(crate) fn check_references(
        &self,
        references: &dyn ResolveReference,
    ) -> Result<(), ProxyError> {
        for piece in &self.pieces {
            for expression in piece.expressions() {
                if let MessageSource::Reference(reference) = expression.source()
                    && references.resolve(reference).is_none()
                {
                    let position = expression.position();
                    let cause = ExpressionError { position, problem: UNKNOWN_REFERENCE };
                    return Err(piece.explain(&self.original, cause));
                }
            }
        }
        Ok(())
    }

    /// Whether an expression reads the configuration of the proxy.
    pub fn reads_configuration(&self) -> bool {
        let mut expressions = self.pieces.iter().flat_map(MessagePiece::expressions);
        expressions.any(|it| matches!(it.source(), MessageSource::Configuration(_)))
    }

    /// Whether the location is outside of the expressions of a JSON body. If not, the values of the
    /// expressions decide whether something can be appended there. Reads at most the whole body.
    pub(crate) fn has_fixed_location(&self, location: &[LocationStep]) -> bool {
        let Ok(text) = std::str::from_utf8(&self.original) else { return false };
        let begins_expression =
            |at: usize| self.pieces.binary_search_by_key(&at, |it| it.span.start).is_ok();
        self.has_json_expressions_only() && !crosses_value(text, location, begins_expression)
    }

    /// Whether each expression is in a text value of a JSON body, and so in no name of a property.
    pub(crate) fn has_json_expressions_only(&self) -> bool {
        self.pieces.iter().all(|it| it.format == PieceFormat::Json && it.part.is_none())
    }

    /// The original bytes if there is no expression; otherwise the bytes with the results.
    ///
    /// Errors: a source does not exist, a filter rejects its value, a result does not fit the
    /// content type, the body is too large, or too many long evaluations are running.
    pub fn render(&self, inputs: &BodyInputs<'_>) -> Result<RenderedBody, ProxyError> {
        if self.pieces.is_empty() {
            let bytes = self.original.clone();
            return Ok(RenderedBody { counted_bytes: bytes.len(), bytes, content_type: None });
        }
        let drawn = self.boundary.as_ref().map(|_| DrawnBoundary::new(inputs.fill_random));
        let message_inputs = MessageInputs {
            references: inputs.references,
            configuration: inputs.configuration,
            identifiers: &Value::Null,
            objects: &Value::Null,
        };
        let BodyInputs { work, fill_random, counting, .. } = *inputs;
        let render = |scope: &Scope<'_>| {
            let mut output = self.start_output(inputs.bytes_max);
            self.render_pieces(&message_inputs, scope, counting, drawn.as_ref(), &mut output)?;
            Ok(output)
        };
        let work_counting = match self.reads_configuration() {
            true if counting.is_padded() => ValueCounting::Padded,
            _ => counting.data,
        };
        let rendered = evaluate_message(work, fill_random, work_counting, render)?;
        let rendered = rendered.map_err(|error| self.explain(&error))?;
        Ok(RenderedBody {
            counted_bytes: rendered.counted_bytes(),
            bytes: rendered.into_bytes(),
            content_type: drawn.and_then(|it| it.content_type()),
        })
    }

    fn start_output(&self, bytes_max: usize) -> SecretBuffer {
        const RESULT_BYTES: usize = 64;
        let growth = self.pieces.len().saturating_mul(RESULT_BYTES);
        SecretBuffer::new(self.original.len().saturating_add(growth), bytes_max)
    }

    fn render_pieces(
        &self,
        inputs: &MessageInputs<'_>,
        scope: &Scope<'_>,
        counting: SourceCounting,
        drawn: Option<&DrawnBoundary>,
        output: &mut SecretBuffer,
    ) -> Result<(), RenderError> {
        let copy = |range: Range<usize>, output: &mut SecretBuffer| {
            let copied = match (&self.boundary, drawn) {
                (Some(boundary), Some(drawn)) => {
                    boundary.copy(&self.original, range, drawn, output)
                }
                _ => output.push(self.original.get(range).unwrap_or_default()),
            };
            copied.map_err(|BufferFull| RenderError::TooLarge)
        };
        let mut copied = 0;
        for (index, piece) in self.pieces.iter().enumerate() {
            copy(copied..piece.span.start, output)?;
            piece.render(inputs, scope, counting, output).map_err(|error| match error {
                PieceError::Expression(cause) => RenderError::Expression { piece: index, cause },
                PieceError::Rule(rule) => RenderError::Rule { piece: index, rule },
                PieceError::Full => RenderError::TooLarge,
            })?;
            copied = piece.span.end;
        }
        copy(copied..self.original.len(), output)
    }

    fn explain(&self, error: &RenderError) -> ProxyError {
        match error {
            RenderError::TooLarge => ProxyError::too_large(),
            RenderError::Rule { piece, rule } => {
                let path = self.pieces.get(*piece).map(|it| it.path(&self.original));
                ProxyError::invalid(path.unwrap_or_default(), rule)
            }
            RenderError::Expression { piece, cause } => match self.pieces.get(*piece) {
                Some(piece) => piece.explain(&self.original, *cause),
                None => FieldError::from_expression_error("body", *cause).into(),
            },
        }
    }
}

/// A transform that appends text looks up each field of a form. The body of the client is checked,
/// and not the rendered one, because the number of its fields can depend on hidden values.
fn check_fields(format: &BodyFormat, body: &[u8]) -> Result<(), ProxyError> {
    const SEPARATORS_MAX: usize = 100_000;
    if matches!(format, BodyFormat::Form)
        && memchr::memchr2_iter(b'&', b';', body).nth(SEPARATORS_MAX).is_some()
    {
        return Err(ProxyError::invalid("body", "a form has at most 100,000 fields"));
    }
    Ok(())
}

fn collect_references(pieces: &[MessagePiece]) -> Vec<MessageReference> {
    let mut references: BTreeMap<&Reference, (bool, BTreeSet<FilteredPath>)> = BTreeMap::new();
    for expression in pieces.iter().flat_map(MessagePiece::expressions) {
        let MessageSource::Reference(reference) = expression.source() else { continue };
        let (reads_cvc, filtered) = references.entry(reference).or_default();
        *reads_cvc |= expression.can_read_cvc();
        filtered.extend(expression.filtered_path());
    }
    let references = references.into_iter();
    let owned = references.map(|(reference, (reads_cvc, filtered))| MessageReference {
        reference: reference.clone(),
        reads_cvc,
        filtered: filtered.into_iter().collect(),
    });
    owned.collect()
}

#[cfg(test)]
mod tests;
