//! The smallest meaningful pieces within `{{ }}` and `{% %}`.
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
/// What is wrong, and at which byte.
pub(crate) type SyntaxError = (usize, &'static str);

/// Reads what stands between the braces. `offset` is where that begins in the whole source.
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
            _ => read_symbol(rest).ok_or((at, "this character has no meaning here"))?,
        };
        lexemes.push((at, lexeme));
        rest = after;
    }
}

/// The longer ones first.
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

/// After a dot a number is an index, so that `list.1.2` is two steps.
fn read_number(rest: &str, after_dot: bool) -> Option<(Lexeme<'_>, &str)> {
    let digits = |text: &str| text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let sign = usize::from(rest.starts_with('-'));
    let whole = digits(skip_bytes(rest, sign));
    if whole == 0 {
        return None;
    }
    let mut end = sign.saturating_add(whole);
    if !after_dot && let Some(fraction) = skip_bytes(rest, end).strip_prefix('.') {
        let places = digits(fraction);
        if places > 0 {
            end = end.saturating_add(1).saturating_add(places);
        }
    }
    Some((Lexeme::Number(rest.get(..end)?), skip_bytes(rest, end)))
}

fn read_name(rest: &str) -> (Lexeme<'_>, &str) {
    let is_name_character = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let end = rest.find(|it: char| !is_name_character(it)).unwrap_or(rest.len());
    let (text, after) = (rest.get(..end).unwrap_or_default(), skip_bytes(rest, end));
    if text == "contains" {
        return (Lexeme::Relation(Relation::Contains), after);
    }
    (Lexeme::Name(text), after)
}
