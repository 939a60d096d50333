//! Finds and compiles the expressions of a message.

use super::expression::{
    ExpressionPlace, MessageExpression, MessageObject, MessagePart, MessageSource,
};
use crate::{
    ExpressionError, SOURCE_BYTES_MAX,
    detokenize::{find_id_end, parse_reference},
    filter::PlainStep,
    syntax::{
        ast::{Call, Operand, Path, Step},
        lexeme::{SyntaxError, lexemes},
        parse::{NameTable, Parser},
        segment::find_closing,
    },
};

type ReadResult<T> = Result<T, SyntaxError>;

impl ExpressionPlace {
    /// The objects that expressions can name.
    fn objects(self) -> &'static [&'static str] {
        match self {
            Self::Body => &[],
            Self::Header => &["proxy", "config"],
            Self::Transform => &["req", "res", "encrypted", "config"],
        }
    }
}

impl MessageExpression {
    /// Reads an expression after its opening braces. Returns its length up to the end of the
    /// closing braces, and no expression if it is not for this place. The position of an error is
    /// relative to `inner`.
    ///
    /// Errors: the expression is invalid.
    pub fn read(
        inner: &str,
        place: ExpressionPlace,
    ) -> Result<(Option<Self>, usize), ExpressionError> {
        let result = read_expression(inner, place);
        result.map_err(|(byte, problem)| ExpressionError::at(inner, byte, problem))
    }
}

pub(super) fn read_text(
    source: &str,
    place: ExpressionPlace,
) -> Result<Vec<MessagePart>, ExpressionError> {
    let mut parts = Vec::new();
    let (mut rest, mut position) = (source, 1_usize);
    while !rest.is_empty() {
        let Some((text, inner)) = rest.split_once("{{") else {
            push_text(&mut parts, rest);
            break;
        };
        push_text(&mut parts, text);
        position = position.saturating_add(text.chars().count());
        let (expression, length) = MessageExpression::read(inner, place).map_err(|error| {
            // Skip the two braces.
            let position = position.saturating_add(1).saturating_add(error.position);
            ExpressionError { position, ..error }
        })?;
        let braces = rest.get(text.len()..).unwrap_or_default();
        let whole = braces.get(..length.saturating_add(2)).unwrap_or(braces);
        match expression {
            Some(it) => parts.push(MessagePart::Expression(it.with_position(position))),
            None => push_text(&mut parts, whole),
        }
        position = position.saturating_add(whole.chars().count());
        rest = inner.get(length..).unwrap_or_default();
    }
    Ok(parts)
}

fn push_text(parts: &mut Vec<MessagePart>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => (),
        Some(MessagePart::Text(last)) => last.push_str(text),
        Some(MessagePart::Expression(_)) | None => parts.push(MessagePart::Text(text.to_owned())),
    }
}

/// Reads an expression after `{{`. Returns its length in bytes, including the closing braces.
fn read_expression(
    inner: &str,
    place: ExpressionPlace,
) -> ReadResult<(Option<MessageExpression>, usize)> {
    let window = inner.get(..inner.floor_char_boundary(SOURCE_BYTES_MAX)).unwrap_or(inner);
    let unclosed_problem = if window.len() < inner.len() {
        "the expression is too long"
    } else {
        "this {{ is never closed"
    };
    let unclosed = (0, unclosed_problem);
    // An id may contain quotes, so the search for the closing braces starts after it.
    let head_end = match place {
        ExpressionPlace::Body => find_id_end(window).ok_or(unclosed)?,
        ExpressionPlace::Header | ExpressionPlace::Transform => 0,
    };
    let after_head = window.get(head_end..).unwrap_or_default();
    let end = head_end.saturating_add(find_closing(after_head, false).ok_or(unclosed)?);
    let content = window.get(..end).unwrap_or_default();
    let source = match place {
        ExpressionPlace::Body => Some(read_body_source(content, head_end)?),
        ExpressionPlace::Header if !begins_with_value(content, place) => {
            return Err((0, "a header can read only proxy and config"));
        }
        ExpressionPlace::Header => Some(read_object_source(content, place)?),
        ExpressionPlace::Transform if !names_object(content, place) => None,
        ExpressionPlace::Transform => Some(read_object_source(content, place)?),
    };
    Ok((source, end.saturating_add(2)))
}

/// Whether the expression begins with an object or a prefix of the place.
fn names_object(content: &str, place: ExpressionPlace) -> bool {
    let content = content.trim_start();
    let is_name_character = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let name_end = content.find(|it: char| !is_name_character(it)).unwrap_or(content.len());
    let name = content.get(..name_end).unwrap_or_default();
    let is_identifier = name == IDENTIFIER && place == ExpressionPlace::Transform;
    place.objects().contains(&name) || is_identifier
}

fn begins_with_value(content: &str, place: ExpressionPlace) -> bool {
    content.trim_start().starts_with(['\'', '"']) || names_object(content, place)
}

const CONFIGURATION: &str = "config";
const IDENTIFIER: &str = "transform_identifier";

fn read_body_source(content: &str, head_end: usize) -> ReadResult<MessageExpression> {
    let (head, filters) = content.split_at_checked(head_end).unwrap_or((content, ""));
    let source = match strip_prefix(head, CONFIGURATION) {
        Some(name) => MessageSource::Configuration(read_name(name)?),
        None => MessageSource::Reference(parse_reference(head).map_err(|problem| (0, problem))?),
    };
    let calls = read_calls(filters, head_end, ExpressionPlace::Body)?;
    Ok(MessageExpression { position: 1, source, calls })
}

fn read_object_source(content: &str, place: ExpressionPlace) -> ReadResult<MessageExpression> {
    let head_end = || find_prefixed_end(content);
    let prefixed = |prefix: &str| strip_prefix(content.get(..head_end())?, prefix);
    let named = if let Some(name) = prefixed(CONFIGURATION) {
        Some(MessageSource::Configuration(read_name(name)?))
    } else if let Some(name) = prefixed(IDENTIFIER).filter(|_| place == ExpressionPlace::Transform)
    {
        Some(MessageSource::Identifier(read_name(name)?))
    } else {
        None
    };
    let (source, mut calls) = match named {
        Some(source) => {
            let filters = content.get(head_end()..).unwrap_or_default();
            (source, read_calls(filters, head_end(), place)?)
        }
        None => {
            let lexemes = lexemes(content, 0)?;
            let mut names = NameTable::with_objects(place.objects());
            let mut random = false;
            let mut parser = Parser::new(&lexemes, content.len(), &mut names, &mut random);
            let output = parser.parse_output(1)?;
            (MessageSource::Object(MessageObject(output.operand)), output.calls)
        }
    };
    let mut expression = MessageExpression { position: 1, source, calls: Vec::new() };
    if place == ExpressionPlace::Header {
        if let MessageSource::Object(MessageObject(operand)) = &mut expression.source {
            merge_leading_path(operand, &mut calls);
            lower_header_name(operand);
        }
        calls.iter_mut().flat_map(|it| &mut it.arguments).for_each(lower_header_name);
    }
    expression.calls = calls;
    Ok(expression)
}

/// The end of `config: name` or `transform_identifier: 'name'`: the first pipe outside of quotes.
fn find_prefixed_end(content: &str) -> usize {
    let mut quote = None;
    for (index, c) in content.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => (),
            (None, '\'' | '"') => quote = Some(c),
            (None, '|') => return index,
            (None, _) => (),
        }
    }
    content.len()
}

fn strip_prefix<'t>(head: &'t str, prefix: &str) -> Option<&'t str> {
    head.trim_start().strip_prefix(prefix)?.trim_start().strip_prefix(':')
}

/// A name with or without quotes.
fn read_name(text: &str) -> ReadResult<String> {
    let text = text.trim();
    let unquoted = ['\'', '"'].iter().find_map(|quote| {
        text.strip_prefix(*quote)?.strip_suffix(*quote).filter(|it| !it.contains(*quote))
    });
    let name = unquoted.unwrap_or(text);
    if name.is_empty() || (unquoted.is_none() && name.contains(['\'', '"'])) {
        return Err((0, "a name was expected"));
    }
    Ok(name.to_owned())
}

fn read_calls(filters: &str, offset: usize, place: ExpressionPlace) -> ReadResult<Vec<Call>> {
    let lexemes = lexemes(filters, offset)?;
    let end = offset.saturating_add(filters.len());
    let mut names = NameTable::with_objects(place.objects());
    Parser::new(&lexemes, end, &mut names, &mut false).parse_calls()
}

/// Makes `proxy | json: '$.request.headers.X-Date'` the same as `proxy.request.headers.X-Date`.
fn merge_leading_path(operand: &mut Operand, calls: &mut Vec<Call>) {
    let Operand::Path(Path { steps, .. }) = operand else { return };
    let plain_path = |call: &Call| call.query.as_ref().and_then(|it| it.plain_path().cloned());
    while let Some(path) = calls.first().and_then(plain_path) {
        calls.remove(0);
        steps.extend(path.steps().iter().map(|it| match it {
            PlainStep::Name(name) => Step::Name(name.clone()),
            PlainStep::Index(index) => Step::Index(*index),
        }));
    }
}

/// Header names ignore case: the object has them in lower case.
fn lower_header_name(operand: &mut Operand) {
    let Operand::Path(Path { steps, .. }) = operand else { return };
    let [Step::Name(proxy), Step::Name(request), Step::Name(headers), Step::Name(name), ..] =
        steps.as_mut_slice()
    else {
        return;
    };
    if proxy == "proxy" && request == "request" && headers == "headers" {
        name.make_ascii_lowercase();
    }
}
