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
    Dots,
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
pub(crate) type Placed<'src> = (usize, Lexeme<'src>);
/// What is wrong, and at which byte.
pub(crate) type Misplaced = (usize, &'static str);

/// Reads what stands between the braces. `offset` is where that begins in the whole source.
pub(crate) fn lexemes(inner: &str, offset: usize) -> Result<Vec<Placed<'_>>, Misplaced> {
    let mut found: Vec<Placed<'_>> = Vec::new();
    let mut rest = inner;
    loop {
        rest = rest.trim_start();
        let at = offset.saturating_add(inner.len().saturating_sub(rest.len()));
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let after_dot = matches!(found.last(), Some((_, Lexeme::Dot)));
        let (lexeme, after) = match first {
            '\'' | '"' => quoted(rest, first).ok_or((at, "this text has no closing quote"))?,
            '-' | '0'..='9' => number(rest, after_dot).ok_or((at, "a number was expected"))?,
            'a'..='z' | 'A'..='Z' | '_' => name(rest),
            _ => sign(rest).ok_or((at, "this character has no meaning here"))?,
        };
        found.push((at, lexeme));
        rest = after;
    }
}

/// The longer ones first.
const SIGNS: &[(&str, Lexeme<'static>)] = &[
    ("==", Lexeme::Relation(Relation::Equal)),
    ("!=", Lexeme::Relation(Relation::NotEqual)),
    ("<>", Lexeme::Relation(Relation::NotEqual)),
    ("<=", Lexeme::Relation(Relation::LessOrEqual)),
    (">=", Lexeme::Relation(Relation::GreaterOrEqual)),
    ("..", Lexeme::Dots),
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

fn sign(rest: &str) -> Option<(Lexeme<'_>, &str)> {
    SIGNS.iter().find_map(|(text, lexeme)| Some((*lexeme, rest.strip_prefix(text)?)))
}

fn tail(text: &str, bytes: usize) -> &str {
    text.get(bytes..).unwrap_or_default()
}

fn quoted(rest: &str, quote: char) -> Option<(Lexeme<'_>, &str)> {
    let (text, after) = tail(rest, 1).split_once(quote)?;
    Some((Lexeme::Text(text), after))
}

/// After a dot a number is an index, so that `list.1.2` is two steps.
fn number(rest: &str, after_dot: bool) -> Option<(Lexeme<'_>, &str)> {
    let digits = |text: &str| text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let sign = usize::from(rest.starts_with('-'));
    let whole = digits(tail(rest, sign));
    if whole == 0 {
        return None;
    }
    let mut end = sign.saturating_add(whole);
    if !after_dot && let Some(fraction) = tail(rest, end).strip_prefix('.') {
        let places = digits(fraction);
        if places > 0 {
            end = end.saturating_add(1).saturating_add(places);
        }
    }
    Some((Lexeme::Number(rest.get(..end)?), tail(rest, end)))
}

fn name(rest: &str) -> (Lexeme<'_>, &str) {
    let part = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let end = rest.find(|it: char| !part(it)).unwrap_or(rest.len());
    let (text, after) = (rest.get(..end).unwrap_or_default(), tail(rest, end));
    if text == "contains" {
        return (Lexeme::Relation(Relation::Contains), after);
    }
    (Lexeme::Name(text), after)
}
