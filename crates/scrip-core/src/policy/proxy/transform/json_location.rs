//! The place in a JSON document where a transform writes: a `JSONPath` that selects one place.

use scrip_expression::check_json_path;

/// The steps of a path such as `$.card['token id'][0]`. Only names and indexes: a path with a
/// wildcard or a filter names no single place to write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonLocation {
    steps: Vec<LocationStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocationStep {
    Name(PropertyName),
    Index(usize),
}

/// The name of a property, with the form in which similar names are equal. It is folded once: a name
/// is compared with every name of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyName {
    name: String,
    folded: String,
}

impl PropertyName {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), folded: fold(name).collect() }
    }

    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Whether a tolerant server could take the other name for this one. It is compared up to the
    /// first different character, and nothing is allocated.
    pub fn is_similar(&self, other: &str) -> bool {
        if other.is_ascii() && other.len() != self.folded.len() {
            return false;
        }
        other != self.name && fold(other).eq(self.folded.chars())
    }
}

/// The same characters for names that differ only in case, or in `-` and `_`. Upper case first, because
/// some letters have the upper case of another one.
fn fold(name: &str) -> impl Iterator<Item = char> {
    let lower = name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    lower.map(|it| if it == '-' { '_' } else { it })
}

const PATH_BYTES_MAX: usize = 256;
const STEPS_MAX: usize = 16;

impl JsonLocation {
    /// Errors: the text is no such path, or selects the whole document.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const RULE: &str = "must be a JSONPath of names and indexes, such as $.card.token_id";
        if text.len() > PATH_BYTES_MAX {
            return Err("must have at most 256 bytes");
        }
        let mut remaining = text.strip_prefix('$').ok_or(RULE)?;
        let mut steps = Vec::new();
        while !remaining.is_empty() {
            let (step, tail) = parse_step(remaining).ok_or(RULE)?;
            steps.push(step);
            remaining = tail;
        }
        // The parser of expressions knows the letters of a name better than the loop above.
        if steps.is_empty() || check_json_path(text).is_err() {
            return Err(RULE);
        }
        if steps.len() > STEPS_MAX {
            return Err("must have at most 16 steps");
        }
        Ok(Self { steps })
    }

    pub fn steps(&self) -> &[LocationStep] {
        &self.steps
    }
}

fn parse_step(text: &str) -> Option<(LocationStep, &str)> {
    if let Some(tail) = text.strip_prefix('.') {
        let end = tail.find(['.', '[']).unwrap_or(tail.len());
        let (name, tail) = tail.split_at(end);
        let is_name = !name.is_empty() && name.chars().all(|it| it == '_' || it.is_alphanumeric());
        return is_name.then(|| (LocationStep::Name(PropertyName::new(name)), tail));
    }
    let tail = text.strip_prefix('[')?;
    if let Some(quote @ ('\'' | '"')) = tail.chars().next() {
        let (name, tail) = tail.get(1..)?.split_once(quote)?;
        // An escape needs a parser of its own, and no name of a provider needs an escape.
        let is_name = !name.contains('\\');
        return is_name
            .then_some((LocationStep::Name(PropertyName::new(name)), tail.strip_prefix(']')?));
    }
    let (digits, tail) = tail.split_once(']')?;
    let is_index = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    Some((LocationStep::Index(digits.parse().ok().filter(|_| is_index)?), tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_differ_in_case_or_in_dashes() {
        let similar = |name: &str, other: &str| PropertyName::new(name).is_similar(other);
        for (name, other) in [
            ("amount", "Amount"),
            ("card_id", "CARD-ID"),
            ("straße", "STRASSE"),
            ("kelvin", "\u{212a}elvin"),
            ("σίγμας", "ΣΊΓΜΑΣ"),
        ] {
            assert!(similar(name, other) && similar(other, name), "{name} {other}");
        }
        for (name, other) in [("a", "a"), ("a", "aa"), ("aa", "a"), ("a-b", "ab"), ("é", "e")] {
            assert!(!similar(name, other), "{name} {other}");
        }
    }

    #[test]
    fn location_has_names_and_indexes() {
        let steps = |text: &str| JsonLocation::parse(text).map(|it| it.steps);
        let name = |it: &str| LocationStep::Name(PropertyName::new(it));
        assert_eq!(steps("$.a_b"), Ok(vec![name("a_b")]));
        assert_eq!(
            steps("$.card['token id'][0][\"x\"]"),
            Ok(vec![name("card"), name("token id"), LocationStep::Index(0), name("x")])
        );
        let (long, deep) = (format!("$.{}", "a".repeat(256)), "$".to_owned() + &".a".repeat(17));
        for text in [
            "",
            "$",
            "a",
            ".a",
            "$a",
            "$.",
            "$..a",
            "$.*",
            "$[*]",
            "$[-1]",
            "$[1:2]",
            "$[?@.a]",
            "$['a','b']",
            "$['a\\'b']",
            "$[01]",
            "$.a b",
            "$[99999999999999999999999]",
            "$.1a",
            long.as_str(),
            deep.as_str(),
        ] {
            assert!(steps(text).is_err(), "{text} is accepted");
        }
    }
}
