//! The smallest meaningful pieces between `{{` and `}}`.
//!
//! Not called tokens: in this code base a token is always a stored secret.

use crate::ExpressionError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lexeme<'src> {
    Name(&'src str),
    Text(&'src str),
    Number(&'src str),
    Dot,
    Pipe,
    Colon,
    Comma,
}

/// A lexeme and the byte at which it starts in the whole source.
pub(crate) type Placed<'src> = (usize, Lexeme<'src>);

/// Reads what stands between the braces. `offset` is where that begins in the whole source.
pub(crate) fn lexemes(
    inner: &str,
    offset: usize,
) -> Result<Vec<Placed<'_>>, (usize, &'static str)> {
    let mut found = Vec::new();
    let mut rest = inner;
    loop {
        rest = rest.trim_start();
        let at = offset.saturating_add(inner.len().saturating_sub(rest.len()));
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let (lexeme, after) = match first {
            '.' => (Lexeme::Dot, tail(rest, 1)),
            '|' => (Lexeme::Pipe, tail(rest, 1)),
            ':' => (Lexeme::Colon, tail(rest, 1)),
            ',' => (Lexeme::Comma, tail(rest, 1)),
            '\'' | '"' => quoted(rest, first).ok_or((at, "this text has no closing quote"))?,
            '-' | '0'..='9' => number(rest).ok_or((at, "a number was expected"))?,
            'a'..='z' | 'A'..='Z' | '_' => name(rest),
            _ => return Err((at, "this character has no meaning here")),
        };
        found.push((at, lexeme));
        rest = after;
    }
}

fn tail(text: &str, bytes: usize) -> &str {
    text.get(bytes..).unwrap_or_default()
}

fn quoted(rest: &str, quote: char) -> Option<(Lexeme<'_>, &str)> {
    let (text, after) = tail(rest, 1).split_once(quote)?;
    Some((Lexeme::Text(text), after))
}

fn number(rest: &str) -> Option<(Lexeme<'_>, &str)> {
    let unsigned = rest.strip_prefix('-').unwrap_or(rest);
    let digits = unsigned.find(|it: char| !it.is_ascii_digit()).unwrap_or(unsigned.len());
    if digits == 0 {
        return None;
    }
    let end = rest.len().saturating_sub(unsigned.len()).saturating_add(digits);
    Some((Lexeme::Number(rest.get(..end)?), tail(rest, end)))
}

fn name(rest: &str) -> (Lexeme<'_>, &str) {
    let part = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let end = rest.find(|it: char| !part(it)).unwrap_or(rest.len());
    (Lexeme::Name(rest.get(..end).unwrap_or_default()), tail(rest, end))
}

impl ExpressionError {
    /// From a byte of the source to the character an editor shows.
    pub(crate) fn at(source: &str, byte: usize, problem: &'static str) -> Self {
        let before = source.char_indices().take_while(|(at, _)| *at < byte).count();
        Self { position: before.saturating_add(1), problem }
    }
}
