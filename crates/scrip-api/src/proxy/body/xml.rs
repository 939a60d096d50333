//! XML bodies: expressions in the text of elements and in the values of attributes.
//!
//! The proxy reads only the tokens of XML that decide whether an expression is in such a place. An
//! expression anywhere else is an error: a result in a name could change the structure, and a
//! result in CDATA or a comment cannot be escaped.

use scrip_expression::{ExpressionError, ExpressionPlace, MessageText, SOURCE_BYTES_MAX};

use super::{
    piece::{MessagePiece, PieceFormat, check_count},
    text::explain,
};
use crate::proxy::error::ProxyError;

const NAME_RULE: &str = "an expression cannot be in a name or other markup of XML";
const CDATA_RULE: &str = "an expression cannot be in CDATA: its result could not be escaped";
const COMMENT_RULE: &str = "an expression cannot be in a comment or an instruction of XML";
const DOCTYPE_RULE: &str = "XML with expressions must not have a document type declaration";
const SYNTAX_RULE: &str = "the body is not well-formed XML";
const ENCODING_RULE: &str =
    "XML with expressions must be UTF-8; change the encoding of its declaration";

/// Markup that is copied without a change: its start, its end, and the rule for an expression.
const VERBATIM_MARKUP: [(&str, &str, &str); 3] =
    [("<!--", "-->", COMMENT_RULE), ("<![CDATA[", "]]>", CDATA_RULE), ("<?", "?>", COMMENT_RULE)];

pub(super) fn find_pieces(body: &str) -> Result<Vec<MessagePiece>, ProxyError> {
    let mut reader = XmlReader { body, at: 0, pieces: Vec::new() };
    reader.check_encoding()?;
    while reader.at < body.len() {
        let text_end =
            reader.rest().find('<').map_or(body.len(), |it| reader.at.saturating_add(it));
        reader.read_run(text_end, PieceFormat::XmlText)?;
        if reader.at < body.len() {
            reader.read_markup()?;
        }
    }
    check_count(&reader.pieces)?;
    Ok(reader.pieces)
}

struct XmlReader<'t> {
    body: &'t str,
    at: usize,
    pieces: Vec<MessagePiece>,
}

impl<'t> XmlReader<'t> {
    fn rest(&self) -> &'t str {
        self.body.get(self.at..).unwrap_or_default()
    }

    /// An error at the current position.
    fn error(&self, problem: &'static str) -> ProxyError {
        explain(self.body, self.at, ExpressionError { position: 1, problem })
    }

    fn check_encoding(&self) -> Result<(), ProxyError> {
        let declaration = self.body.trim_start_matches('\u{feff}').strip_prefix("<?xml");
        let Some((declaration, _)) = declaration.and_then(|it| it.split_once("?>")) else {
            return Ok(());
        };
        let Some((_, encoding)) = declaration.split_once("encoding") else { return Ok(()) };
        let encoding = encoding.trim_matches(|it: char| it.is_whitespace() || "='\"".contains(it));
        let encoding = encoding.split(['\'', '"']).next().unwrap_or_default();
        let is_utf8 = ["utf-8", "us-ascii"].iter().any(|it| encoding.eq_ignore_ascii_case(it));
        if is_utf8 { Ok(()) } else { Err(ProxyError::invalid("body", ENCODING_RULE)) }
    }

    /// Reads from `<` to the end of the markup.
    fn read_markup(&mut self) -> Result<(), ProxyError> {
        let rest = self.rest();
        for (start, end, rule) in VERBATIM_MARKUP {
            let Some(after_start) = rest.strip_prefix(start) else { continue };
            let content = after_start.find(end).and_then(|it| after_start.get(..it));
            let content = content.ok_or_else(|| self.error(SYNTAX_RULE))?;
            if content.contains("{{") {
                return Err(self.error(rule));
            }
            let length = start.len().saturating_add(content.len()).saturating_add(end.len());
            self.at = self.at.saturating_add(length);
            return Ok(());
        }
        if rest.starts_with("<!") {
            return Err(self.error(DOCTYPE_RULE));
        }
        self.read_tag()
    }

    /// Reads a tag with its attributes. Only text in quotes can have an expression.
    fn read_tag(&mut self) -> Result<(), ProxyError> {
        self.at = self.at.saturating_add(1);
        loop {
            let rest = self.rest();
            let Some(found) = rest.find(['>', '"', '\'', '<']) else {
                return Err(self.error(SYNTAX_RULE));
            };
            let (markup, stop) = rest.split_at_checked(found).unwrap_or((rest, ""));
            if markup.contains("{{") {
                return Err(self.error(NAME_RULE));
            }
            self.at = self.at.saturating_add(found).saturating_add(1);
            let quote = match stop.chars().next() {
                Some('>') => return Ok(()),
                Some(quote @ ('"' | '\'')) => quote,
                _ => return Err(self.error(SYNTAX_RULE)),
            };
            let value_length = self.rest().find([quote, '<']);
            let end = value_length.map(|it| self.at.saturating_add(it));
            let end = end.filter(|it| self.body.get(*it..).is_some_and(|it| it.starts_with(quote)));
            let end = end.ok_or_else(|| self.error(SYNTAX_RULE))?;
            self.read_run(end, PieceFormat::XmlAttribute)?;
            self.at = end.saturating_add(1);
        }
    }

    /// Reads character data up to this byte.
    fn read_run(&mut self, end: usize, format: PieceFormat) -> Result<(), ProxyError> {
        loop {
            let run = self.body.get(self.at..end).unwrap_or_default();
            let Some(found) = run.find("{{") else { break };
            self.at = self.at.saturating_add(found);
            let run = run.get(found..).unwrap_or_default();
            let (text, length) =
                read_expression(run).map_err(|error| explain(self.body, self.at, error))?;
            let span = self.at..self.at.saturating_add(length);
            self.at = span.end;
            self.pieces.push(MessagePiece::new(span, format.clone(), text, self.body));
        }
        self.at = end;
        Ok(())
    }
}

/// Reads the expression at the start of a run. Serializers write its quotes as entities.
fn read_expression(run: &str) -> Result<(MessageText, usize), ExpressionError> {
    let plain = MessageText::read_expression(run, ExpressionPlace::Body);
    let has_entities = |length: usize| run.get(..length).is_some_and(|it| it.contains('&'));
    match plain {
        Ok((text, length)) if !has_entities(length) => return Ok((text, length)),
        Err(error) if !has_entities(window(run).len()) => return Err(error),
        _ => (),
    }
    let decoded = decode_entities(window(run))?;
    let (text, length) = MessageText::read_expression(&decoded.text, ExpressionPlace::Body)?;
    Ok((text, decoded.raw_length(length)))
}

/// The longest part of the run that an expression can have. An entity has at most ten characters.
fn window(run: &str) -> &str {
    const ENTITY_BYTES_MAX: usize = 10;
    let length = SOURCE_BYTES_MAX.saturating_mul(ENTITY_BYTES_MAX);
    // An expression with entities cannot extend over the start of the next one.
    let next =
        run.get(2..).and_then(|it| it.find("{{")).map_or(run.len(), |it| it.saturating_add(2));
    run.get(..run.floor_char_boundary(length.min(next))).unwrap_or(run)
}

struct DecodedRun {
    text: String,
    /// For each entity: the end in the decoded text, and the end in the run.
    entities: Vec<(usize, usize)>,
}

impl DecodedRun {
    /// The length in the run of the first bytes of the decoded text.
    fn raw_length(&self, length: usize) -> usize {
        let (decoded_end, raw_end) =
            self.entities.iter().rfind(|(end, _)| *end <= length).copied().unwrap_or_default();
        raw_end.saturating_add(length.saturating_sub(decoded_end))
    }
}

fn decode_entities(run: &str) -> Result<DecodedRun, ExpressionError> {
    let mut decoded = DecodedRun { text: String::new(), entities: Vec::new() };
    let mut at = 0_usize;
    loop {
        let rest = run.get(at..).unwrap_or_default();
        let found = rest.find('&').unwrap_or(rest.len());
        decoded.text.push_str(rest.get(..found).unwrap_or_default());
        at = at.saturating_add(found);
        let Some(entity) = rest.get(found..).filter(|it| !it.is_empty()) else {
            return Ok(decoded);
        };
        let position = run.get(..at).unwrap_or_default().chars().count().saturating_add(1);
        let error = ExpressionError { position, problem: "unknown entity" };
        let (name, _) = entity.split_once(';').ok_or(error)?;
        decoded.text.push(entity_character(name.strip_prefix('&').unwrap_or(name)).ok_or(error)?);
        at = at.saturating_add(name.len()).saturating_add(1);
        decoded.entities.push((decoded.text.len(), at));
    }
}

fn entity_character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}
