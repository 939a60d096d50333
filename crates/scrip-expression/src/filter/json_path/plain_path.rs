//! A `JSONPath` that only descends: names and indexes.

use serde_json::Value;

use crate::{inner_steps::count_value, value::datum::Datum};

/// A whole number with more digits is left to the library, which rejects it.
const INDEX_DIGITS_MAX: usize = 15;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlainPath(Vec<PlainStep>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlainStep {
    Name(String),
    /// Counts from the end if negative.
    Index(i64),
}

impl PlainPath {
    /// `None` for every path with a feature that needs the library.
    ///
    /// After a dot, a name may contain dashes. RFC 9535 requires brackets and quotes there, but
    /// published samples write `$.request.headers.X-Date`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix('$')?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('.') {
                Some(rest) => read_name(rest)?,
                None => read_brackets(rest.strip_prefix('[')?)?,
            };
            steps.push(step);
            rest = after;
        }
        Some(Self(steps))
    }

    pub(crate) fn steps(&self) -> &[PlainStep] {
        &self.0
    }

    /// The part of the value at this path; null if it does not exist.
    pub(crate) fn select_part<'a>(&self, value: Datum<'a>) -> Datum<'a> {
        if let Datum::Borrowed(value) = value {
            return self.find(value).map_or_else(Datum::null, Datum::Borrowed);
        }
        let part = self.find(&value).inspect(|it| count_value(it));
        part.cloned().map_or_else(Datum::null, Datum::Owned)
    }

    fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, step| match (step, value) {
            (PlainStep::Name(name), Value::Object(object)) => object.get(name),
            (PlainStep::Index(index), Value::Array(items)) => {
                let distance = usize::try_from(index.unsigned_abs()).ok()?;
                let from_end = || items.len().checked_sub(distance);
                items.get(if *index < 0 { from_end()? } else { distance })
            }
            _ => None,
        })
    }
}

fn read_name(rest: &str) -> Option<(PlainStep, &str)> {
    let is_first = |it: char| it.is_ascii_alphabetic() || it == '_' || !it.is_ascii();
    let is_name_character = |it: char| is_first(it) || it.is_ascii_digit() || it == '-';
    let end = rest.find(|it: char| !is_name_character(it)).unwrap_or(rest.len());
    let (name, after) = rest.split_at_checked(end)?;
    name.starts_with(is_first).then(|| (PlainStep::Name(name.to_owned()), after))
}

fn read_brackets(rest: &str) -> Option<(PlainStep, &str)> {
    if let Some(quote) = rest.chars().next().filter(|it| matches!(it, '\'' | '"')) {
        let (name, after) = rest.get(1..)?.split_once(quote)?;
        let is_plain = !name.contains(|it: char| it == '\\' || it.is_ascii_control());
        let after = after.strip_prefix(']').filter(|_| is_plain)?;
        return Some((PlainStep::Name(name.to_owned()), after));
    }
    let (digits, after) = rest.split_once(']')?;
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    let is_canonical = match unsigned.as_bytes() {
        [b'0'] => digits == unsigned,
        [first, ..] => *first != b'0',
        [] => false,
    };
    let is_number = unsigned.bytes().all(|it| it.is_ascii_digit());
    let is_index = is_canonical && is_number && unsigned.len() <= INDEX_DIGITS_MAX;
    let index = digits.parse().ok().filter(|_| is_index)?;
    Some((PlainStep::Index(index), after))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json_path::JsonPath;

    use super::*;

    #[test]
    fn plain_path_finds_the_same_value_as_the_library() {
        let value = json!({
            "a": {"b": [1, {"c": 2}, [3]], "size": 4, "é": 5, "x y": 6},
            "list": ["first", "last"], "0": "zero", "_1": 7,
        });
        let paths = [
            "$",
            "$.a",
            "$.a.b",
            "$.a.b[0]",
            "$.a.b[1].c",
            "$.a.b[-1][0]",
            "$.a.b[-4]",
            "$.a.b[9]",
            "$.a.size",
            "$.list.size",
            "$.list.first",
            "$.list[0]",
            "$['a'][\"b\"]",
            "$['0']",
            "$[0]",
            "$.a.é",
            "$.a['x y']",
            "$._1",
            "$['']",
            "$.list['0']",
            "$.none.none",
        ];
        for text in paths {
            let path = PlainPath::parse(text).unwrap();
            let expected = JsonPath::parse(text).unwrap().query(&value).at_most_one().unwrap();
            assert_eq!(path.find(&value), expected, "{text}");
        }
        let dashes = json!({"headers": {"X-Date": "today"}});
        let path = PlainPath::parse("$.headers.X-Date").unwrap();
        assert_eq!(path.find(&dashes), Some(&json!("today")));
    }

    #[test]
    fn path_with_any_other_feature_is_left_to_the_library() {
        for text in [
            "",
            "a",
            "$.",
            "$..a",
            "$.*",
            "$[*]",
            "$[0:1]",
            "$[0,1]",
            "$['a','b']",
            "$[?@.a]",
            "$['a\\n']",
            "$['a'",
            "$[01]",
            "$[-0]",
            "$[]",
            "$.1a",
            "$ .a",
            "$.a ",
            "$[1234567890123456]",
            "$[-]",
            "$[1.5]",
            "$.-a",
        ] {
            assert_eq!(PlainPath::parse(text), None, "{text}");
        }
    }
}
