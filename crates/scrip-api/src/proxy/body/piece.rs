//! A part of a body that is replaced by the results of its expressions.

use std::{borrow::Cow, ops::Range, sync::Arc};

use scrip_core::{
    FieldError,
    expression::ValueCounting,
    types::{AttributePath, Plaintext},
};
use scrip_expression::{
    EvaluatedMessage, ExpressionError, MessageExpression, MessageInputs, MessagePart,
    MessageSource, MessageText, STEPS_MAX, Scope, padded_value_size,
};
use serde_json::Value;

use super::form_encoding::name_path;
use crate::proxy::{
    error::ProxyError,
    json_scanner,
    secret_buffer::{BufferFull, ENCODED_GROWTH, SecretBuffer},
};

#[derive(Debug)]
pub(super) struct MessagePiece {
    /// The replaced bytes of the original body.
    pub(super) span: Range<usize>,
    pub(super) format: PieceFormat,
    pub(super) text: MessageText,
    /// The document of the piece: the whole body, or one part of a multipart body.
    pub(super) document: Range<usize>,
    /// The name of the part.
    pub(super) part: Option<Arc<str>>,
}

/// How results are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PieceFormat {
    /// A quoted text. A single expression takes the type of its value.
    Json,
    /// The value of a form field. The position of the name is for errors.
    Form {
        name: Range<usize>,
    },
    XmlText,
    XmlAttribute,
    Plain,
}

pub(super) enum PieceError {
    Expression(ExpressionError),
    Rule(&'static str),
    Full,
}

impl From<ExpressionError> for PieceError {
    fn from(error: ExpressionError) -> Self {
        Self::Expression(error)
    }
}

impl From<BufferFull> for PieceError {
    fn from(BufferFull: BufferFull) -> Self {
        Self::Full
    }
}

const XML_RULE: &str = "the value contains a character that XML does not allow";

impl MessagePiece {
    pub(super) fn new(
        span: Range<usize>,
        format: PieceFormat,
        text: MessageText,
        body: &str,
    ) -> Self {
        Self { span, format, text, document: 0..body.len(), part: None }
    }

    /// The same piece in a body in which its document begins at this byte.
    pub(super) fn inside_part(self, offset: usize, part: &Arc<str>) -> Self {
        let shift =
            |it: Range<usize>| it.start.saturating_add(offset)..it.end.saturating_add(offset);
        let format = match self.format {
            PieceFormat::Form { name } => PieceFormat::Form { name: shift(name) },
            format @ (PieceFormat::Json
            | PieceFormat::XmlText
            | PieceFormat::XmlAttribute
            | PieceFormat::Plain) => format,
        };
        let (span, document) = (shift(self.span), shift(self.document));
        Self { span, format, document, part: Some(Arc::clone(part)), ..self }
    }

    pub(super) fn expressions(&self) -> impl Iterator<Item = &MessageExpression> {
        self.text.parts().iter().filter_map(|it| match it {
            MessagePart::Expression(expression) => Some(expression),
            MessagePart::Text(_) => None,
        })
    }

    pub(super) fn render(
        &self,
        inputs: &MessageInputs<'_>,
        scope: &Scope<'_>,
        counting: SourceCounting,
        output: &mut SecretBuffer,
    ) -> Result<(), PieceError> {
        if self.format == PieceFormat::Json {
            if let Some(expression) = self.text.single_expression() {
                let value = RenderedValue::new(expression.evaluate(inputs, scope)?);
                let counting = counting.of(expression.source());
                return self.write_counted(value.expose(), counting, output, |value, output| {
                    serde_json::to_writer(output, value).map_err(|_| PieceError::Full)
                });
            }
            output.push(b"\"")?;
        }
        for part in self.text.parts() {
            match part {
                MessagePart::Text(text) => self.encode_text(text, ValueCounting::Exact, output)?,
                MessagePart::Expression(expression) => {
                    let value = RenderedValue::new(expression.evaluate(inputs, scope)?);
                    let counting = counting.of(expression.source());
                    self.write_counted(value.expose(), counting, output, |value, output| {
                        self.encode_value(value, counting, output)
                    })?;
                }
            }
        }
        if self.format == PieceFormat::Json {
            output.push(b"\"")?;
        }
        Ok(())
    }

    /// Writes a value. A hidden one counts by its padded size before it is encoded: the caller chooses
    /// the encoding, and its length would tell the characters.
    fn write_counted(
        &self,
        value: &Value,
        counting: ValueCounting,
        output: &mut SecretBuffer,
        write: impl FnOnce(&Value, &mut SecretBuffer) -> Result<(), PieceError>,
    ) -> Result<(), PieceError> {
        if counting == ValueCounting::Exact {
            return write(value, output);
        }
        let growth = match self.format {
            PieceFormat::Plain => 1,
            PieceFormat::Json
            | PieceFormat::Form { .. }
            | PieceFormat::XmlText
            | PieceFormat::XmlAttribute => ENCODED_GROWTH,
        };
        output.start_hidden_value(padded_value_size(value).saturating_mul(growth))?;
        let written = write(value, output);
        output.end_hidden_value();
        written
    }

    /// Writes the text of a value: null is empty, lists and objects are JSON.
    fn encode_value(
        &self,
        value: &Value,
        counting: ValueCounting,
        output: &mut SecretBuffer,
    ) -> Result<(), PieceError> {
        match value {
            Value::Null => Ok(()),
            Value::String(text) => self.encode_text(text, counting, output),
            Value::Number(number) => self.encode_text(number.as_str(), counting, output),
            Value::Bool(true) => self.encode_text("true", counting, output),
            Value::Bool(false) => self.encode_text("false", counting, output),
            Value::Array(_) | Value::Object(_) => {
                let mut json = SecretBuffer::new(256, usize::MAX);
                serde_json::to_writer(&mut json, value).map_err(|_| PieceError::Full)?;
                let text = std::str::from_utf8(json.as_slice()).unwrap_or_default();
                self.encode_text(text, counting, output)
            }
        }
    }

    fn encode_text(
        &self,
        text: &str,
        counting: ValueCounting,
        output: &mut SecretBuffer,
    ) -> Result<(), PieceError> {
        match self.format {
            PieceFormat::Plain => output.push(text.as_bytes())?,
            PieceFormat::Json => push_escaped(text, output, escape_json)?,
            PieceFormat::Form { .. } => {
                for encoded in form_urlencoded::byte_serialize(text.as_bytes()) {
                    output.push(encoded.as_bytes())?;
                }
            }
            PieceFormat::XmlText | PieceFormat::XmlAttribute => {
                let is_attribute = self.format == PieceFormat::XmlAttribute;
                let mut runs = text.split(is_forbidden_in_xml);
                let push = |it: &str, output: &mut SecretBuffer| {
                    push_escaped(it, output, |byte| escape_xml(byte, is_attribute))
                };
                push(runs.next().unwrap_or_default(), output)?;
                for run in runs {
                    // The failure would tell the caller about a value that it may not read.
                    if counting == ValueCounting::Exact {
                        return Err(PieceError::Rule(XML_RULE));
                    }
                    push("\u{fffd}", output)?;
                    push(run, output)?;
                }
            }
        }
        Ok(())
    }

    /// The path of the piece, for errors. It is found again in the body: errors are rare, and a
    /// stored path would cost memory for each piece.
    pub(super) fn path(&self, body: &[u8]) -> String {
        let document = body.get(self.document.clone()).unwrap_or_default();
        let document = std::str::from_utf8(document).unwrap_or_default();
        let inner = match &self.format {
            PieceFormat::Json => {
                let offset = self.span.start.saturating_sub(self.document.start);
                json_scanner::find_path(document, offset)
            }
            PieceFormat::Form { name } => name_path(body.get(name.clone()).unwrap_or_default()),
            PieceFormat::XmlText | PieceFormat::XmlAttribute | PieceFormat::Plain => {
                AttributePath::default()
            }
        };
        let mut path = body_path(self.part.as_deref());
        match inner.as_str() {
            "" => (),
            inner if inner.starts_with('[') => path.push_str(inner),
            inner => {
                path.push('.');
                path.push_str(inner);
            }
        }
        path
    }

    /// An error at a position in the text of the piece. In formats without attributes, the position
    /// is in the document.
    pub(super) fn explain(&self, body: &[u8], error: ExpressionError) -> ProxyError {
        let position = match self.format {
            PieceFormat::Json | PieceFormat::Form { .. } => error.position,
            PieceFormat::XmlText | PieceFormat::XmlAttribute | PieceFormat::Plain => {
                let before = body.get(self.document.start..self.span.start).unwrap_or_default();
                let before = std::str::from_utf8(before).unwrap_or_default();
                before.chars().count().saturating_add(error.position)
            }
        };
        let error = ExpressionError { position, ..error };
        FieldError::from_expression_error(self.path(body), error).into()
    }
}

/// `body`, or `body.name` for a part.
pub(super) fn body_path(part: Option<&str>) -> String {
    let mut path = AttributePath::default();
    path.enter("body");
    if let Some(part) = part {
        path.enter(part);
    }
    path.as_str().to_owned()
}

/// Expressions cost memory when they are compiled. More could not be evaluated anyway.
pub(super) fn check_count(pieces: &[MessagePiece]) -> Result<(), ProxyError> {
    if pieces.iter().flat_map(MessagePiece::expressions).count() > STEPS_MAX {
        return Err(ProxyError::invalid("body", "has too many expressions"));
    }
    Ok(())
}

/// A result. If an expression created the value, it is wiped.
enum RenderedValue<'v> {
    Borrowed(&'v Value),
    Owned(Plaintext),
}

impl<'v> RenderedValue<'v> {
    fn new(value: EvaluatedMessage<'v>) -> Self {
        match value {
            EvaluatedMessage::Borrowed(value) => Self::Borrowed(value),
            EvaluatedMessage::Owned(value) => Self::Owned(Plaintext::new(value)),
        }
    }

    fn expose(&self) -> &Value {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value.expose(),
        }
    }
}

/// Writes a text with the escapes of some ASCII characters.
fn push_escaped(
    text: &str,
    output: &mut SecretBuffer,
    escape: impl Fn(u8) -> Option<Cow<'static, str>>,
) -> Result<(), BufferFull> {
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(escaped) = escape(*byte) {
            output.push(bytes.get(copied..at).unwrap_or_default())?;
            output.push(escaped.as_bytes())?;
            copied = at.saturating_add(1);
        }
    }
    output.push(bytes.get(copied..).unwrap_or_default())
}

fn escape_json(byte: u8) -> Option<Cow<'static, str>> {
    match byte {
        b'"' => Some("\\\"".into()),
        b'\\' => Some("\\\\".into()),
        b'\n' => Some("\\n".into()),
        b'\r' => Some("\\r".into()),
        b'\t' => Some("\\t".into()),
        0..=0x1f => Some(format!("\\u{byte:04x}").into()),
        _ => None,
    }
}

fn is_forbidden_in_xml(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}'
    )
}

/// A parser replaces a carriage return by a newline, and other white space in attributes by a
/// space, unless they are written as character references.
fn escape_xml(byte: u8, is_attribute: bool) -> Option<Cow<'static, str>> {
    match byte {
        b'&' => Some("&amp;".into()),
        b'<' => Some("&lt;".into()),
        b'>' => Some("&gt;".into()),
        b'"' => Some("&quot;".into()),
        b'\'' => Some("&apos;".into()),
        b'\r' => Some("&#13;".into()),
        b'\n' if is_attribute => Some("&#10;".into()),
        b'\t' if is_attribute => Some("&#9;".into()),
        _ => None,
    }
}

/// How values count, by their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCounting {
    /// Data of tokens, intents and of the client.
    pub data: ValueCounting,
    /// The configuration of the proxy, and texts of its transforms.
    pub configuration: ValueCounting,
}

impl SourceCounting {
    pub(crate) const EXACT: Self =
        Self { data: ValueCounting::Exact, configuration: ValueCounting::Exact };

    /// Whether the exact length of the message is hidden.
    pub(crate) fn is_padded(self) -> bool {
        self != Self::EXACT
    }

    pub(super) fn of(self, source: &MessageSource) -> ValueCounting {
        match source {
            MessageSource::Configuration(_) => self.configuration,
            MessageSource::Reference(_)
            | MessageSource::Identifier(_)
            | MessageSource::Object(_) => self.data,
        }
    }
}
