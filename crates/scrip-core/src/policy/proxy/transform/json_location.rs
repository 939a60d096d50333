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
    Name(String),
    Index(usize),
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
        return is_name.then(|| (LocationStep::Name(name.to_owned()), tail));
    }
    let tail = text.strip_prefix('[')?;
    if let Some(quote @ ('\'' | '"')) = tail.chars().next() {
        let (name, tail) = tail.get(1..)?.split_once(quote)?;
        // An escape needs a parser of its own, and no name of a provider needs an escape.
        let is_name = !name.contains('\\');
        return is_name.then_some((LocationStep::Name(name.to_owned()), tail.strip_prefix(']')?));
    }
    let (digits, tail) = tail.split_once(']')?;
    let is_index = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    Some((LocationStep::Index(digits.parse().ok().filter(|_| is_index)?), tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_has_names_and_indexes() {
        let steps = |text: &str| JsonLocation::parse(text).map(|it| it.steps);
        let name = |it: &str| LocationStep::Name(it.to_owned());
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
