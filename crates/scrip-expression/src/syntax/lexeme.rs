//! The lexemes within `{{ }}` and `{% %}`.
//!
//! Not called tokens: in this code base a token is always a stored secret.

use crate::syntax::ast::Relation;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lexeme<'src> {
    Name(&'src str),
    Text(&'src str),
    Number(&'src str),
    Relation(Relation),
    Dot,
    DotDot,
    Pipe,
    Colon,
    Comma,
    Equal,
    OpenBracket,
    CloseBracket,
    OpenParen,
    CloseParen,
}

/// A lexeme and the byte at which it starts in the whole source.
pub(crate) type PositionedLexeme<'src> = (usize, Lexeme<'src>);
/// A byte offset and a problem.
pub(crate) type SyntaxError = (usize, &'static str);

/// Reads the text between the braces. `offset` is its position in the whole source.
pub(crate) fn lexemes(
    inner: &str,
    offset: usize,
) -> Result<Vec<PositionedLexeme<'_>>, SyntaxError> {
    let mut lexemes: Vec<PositionedLexeme<'_>> = Vec::new();
    let mut rest = inner;
    loop {
        rest = rest.trim_start();
        let at = offset.saturating_add(inner.len().saturating_sub(rest.len()));
        let Some(first) = rest.chars().next() else { return Ok(lexemes) };
        let after_dot = matches!(lexemes.last(), Some((_, Lexeme::Dot)));
        let (lexeme, after) = match first {
            '\'' | '"' => read_quoted(rest, first).ok_or((at, "this text has no closing quote"))?,
            '-' | '0'..='9' => read_number(rest, after_dot).ok_or((at, "a number was expected"))?,
            'a'..='z' | 'A'..='Z' | '_' => read_name(rest),
            _ => read_symbol(rest).ok_or((at, "unexpected character"))?,
        };
        lexemes.push((at, lexeme));
        rest = after;
    }
}

/// Longer symbols first.
const SYMBOLS: &[(&str, Lexeme<'static>)] = &[
    ("==", Lexeme::Relation(Relation::Equal)),
    ("!=", Lexeme::Relation(Relation::NotEqual)),
    ("<>", Lexeme::Relation(Relation::NotEqual)),
    ("<=", Lexeme::Relation(Relation::LessOrEqual)),
    (">=", Lexeme::Relation(Relation::GreaterOrEqual)),
    ("..", Lexeme::DotDot),
    ("<", Lexeme::Relation(Relation::Less)),
    (">", Lexeme::Relation(Relation::Greater)),
    (".", Lexeme::Dot),
    ("|", Lexeme::Pipe),
    (":", Lexeme::Colon),
    (",", Lexeme::Comma),
    ("=", Lexeme::Equal),
    ("[", Lexeme::OpenBracket),
    ("]", Lexeme::CloseBracket),
    ("(", Lexeme::OpenParen),
    (")", Lexeme::CloseParen),
];

fn read_symbol(rest: &str) -> Option<(Lexeme<'_>, &str)> {
    SYMBOLS.iter().find_map(|(text, lexeme)| Some((*lexeme, rest.strip_prefix(text)?)))
}

fn skip_bytes(text: &str, bytes: usize) -> &str {
    text.get(bytes..).unwrap_or_default()
}

fn read_quoted(rest: &str, quote: char) -> Option<(Lexeme<'_>, &str)> {
    let (text, after) = skip_bytes(rest, 1).split_once(quote)?;
    Some((Lexeme::Text(text), after))
}

/// After a dot, a number is an index, so `list.1.2` has two steps.
fn read_number(text: &str, after_dot: bool) -> Option<(Lexeme<'_>, &str)> {
    let digit_count = |text: &str| text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let sign = usize::from(text.starts_with('-'));
    let integer_digits = digit_count(skip_bytes(text, sign));
    if integer_digits == 0 {
        return None;
    }
    let mut end = sign.saturating_add(integer_digits);
    if !after_dot && let Some(fraction) = skip_bytes(text, end).strip_prefix('.') {
        let fraction_digits = digit_count(fraction);
        if fraction_digits > 0 {
            end = end.saturating_add(1).saturating_add(fraction_digits);
        }
    }
    Some((Lexeme::Number(text.get(..end)?), skip_bytes(text, end)))
}

fn read_name(rest: &str) -> (Lexeme<'_>, &str) {
    let is_name_character = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let name_end = rest.find(|it: char| !is_name_character(it)).unwrap_or(rest.len());
    let (text, after) = (rest.get(..name_end).unwrap_or_default(), skip_bytes(rest, name_end));
    if text == "contains" {
        return (Lexeme::Relation(Relation::Contains), after);
    }
    (Lexeme::Name(text), after)
}
