//! `JSONPath` (RFC 9535), limited to paths that read the value at most a few times.

use serde_json::Value;
use serde_json_path::JsonPath;

use crate::{inner_steps::count_value, value::datum::Datum};

/// Limits of a path. Several `..`, nested conditions or many selector lists multiply each other's
/// cost, and the library's parser is recursive. Finding one value in a token needs none of this.
const PATH_BYTES_MAX: usize = 256;
const DEPTH_MAX: usize = 8;
const DESCENTS_MAX: usize = 1;
const CONDITIONS_MAX: usize = 1;
const COMMAS_MAX: usize = 3;
const LITERAL_BYTES_PER_READING: usize = 16;

#[derive(Debug, Clone)]
pub(crate) enum JsonPathQuery {
    /// Most paths. They need no library, and cost nothing but their steps.
    Plain(PlainPath),
    Full {
        path: Box<JsonPath>,
        /// How often the query may read the value. Zero for a path that only descends.
        readings: usize,
    },
}

#[derive(Debug, Default)]
struct PathComplexity {
    depth: usize,
    depth_max: usize,
    descents: usize,
    conditions: usize,
    commas: u32,
    roots: usize,
    /// Dots, brackets, references to the current node, and operators. Each costs work for every
    /// node that a condition checks, even if it compares only literals.
    parts: usize,
    selects_many: bool,
}

/// Checks the syntax and the limits of a `JSONPath`.
/// Errors: the text is not a `JSONPath`, or it is too complex.
pub fn check_json_path(text: &str) -> Result<(), &'static str> {
    JsonPathQuery::parse(text).map(drop)
}

impl JsonPathQuery {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(path) = PlainPath::parse(text).filter(|_| text.len() <= PATH_BYTES_MAX) {
            return Ok(Self::Plain(path));
        }
        let complexity = PathComplexity::measure(text);
        let is_bounded = text.len() <= PATH_BYTES_MAX
            && complexity.depth_max <= DEPTH_MAX
            && complexity.descents <= DESCENTS_MAX
            && complexity.conditions <= CONDITIONS_MAX
            && usize::try_from(complexity.commas).is_ok_and(|it| it <= COMMAS_MAX)
            && complexity.roots <= 1;
        if !is_bounded {
            return Err("this JSONPath is too complex");
        }
        let path = JsonPath::parse(text).map_err(|_| "this is not a JSONPath")?;
        // Each comma may double the number of nodes for the next part.
        let readings = complexity.parts.saturating_mul(2_usize.saturating_pow(complexity.commas));
        // Long literals are compared again for each node.
        let readings = readings.saturating_add(text.len() / LITERAL_BYTES_PER_READING);
        let readings = if complexity.selects_many { readings } else { 0 };
        Ok(Self::Full { path: Box::new(path), readings })
    }

    /// Whether the path contains this name, which is in lower case, in any case.
    pub(crate) fn can_name(&self, attribute: &str) -> bool {
        match self {
            Self::Plain(path) => path.steps().iter().any(|step| match step {
                PlainStep::Name(name) => name.eq_ignore_ascii_case(attribute),
                PlainStep::Index(_) => false,
            }),
            Self::Full { path, .. } => mentions(&path.to_string(), attribute),
        }
    }

    pub(crate) fn plain_path(&self) -> Option<&PlainPath> {
        match self {
            Self::Plain(path) => Some(path),
            Self::Full { .. } => None,
        }
    }
}

/// Whether a text contains a name that is in lower case.
pub(crate) fn mentions(text: &str, name: &str) -> bool {
    text.to_ascii_lowercase().contains(name)
}

impl PathComplexity {
    /// Counts only characters outside of quotes.
    fn measure(text: &str) -> Self {
        let mut complexity = Self::default();
        let mut quote = None;
        let mut previous = ' ';
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some(_), '\\') => {
                    chars.next();
                }
                (Some(open), _) if open == c => quote = None,
                (Some(_), _) => (),
                (None, '\'' | '"') => quote = Some(c),
                (None, _) => complexity.count_character(previous, c),
            }
            previous = c;
        }
        complexity
    }

    fn count_character(&mut self, previous: char, c: char) {
        match c {
            '[' | '(' => {
                self.depth = self.depth.saturating_add(1);
                self.depth_max = self.depth_max.max(self.depth);
                self.parts = self.parts.saturating_add(1);
            }
            ']' | ')' => self.depth = self.depth.saturating_sub(1),
            '.' => {
                self.parts = self.parts.saturating_add(1);
                if previous == '.' {
                    self.descents = self.descents.saturating_add(1);
                    self.selects_many = true;
                }
            }
            '?' => {
                self.conditions = self.conditions.saturating_add(1);
                self.selects_many = true;
            }
            ',' => {
                self.commas = self.commas.saturating_add(1);
                self.selects_many = true;
            }
            '$' => self.roots = self.roots.saturating_add(1),
            '@' | '&' | '|' | '!' | '=' | '<' | '>' => self.parts = self.parts.saturating_add(1),
            '*' | ':' => self.selects_many = true,
            _ => (),
        }
    }
}

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

    fn readings(path: &str) -> usize {
        match JsonPathQuery::parse(path).unwrap() {
            JsonPathQuery::Plain(_) => 0,
            JsonPathQuery::Full { readings, .. } => readings,
        }
    }

    #[test]
    fn path_that_only_walks_down_is_not_charged() {
        assert_eq!(readings("$.a.b[0]"), 0);
    }

    #[test]
    fn every_comparison_of_a_condition_is_charged_for_every_node() {
        for operator in ["&&", "||"] {
            for count in [1, 10, 50] {
                let path = format!("$[?{}]", vec!["2>1"; count].join(operator));
                assert!(readings(&path) >= count, "{path}");
            }
        }
        let long_path = format!("$[?{}>2]", "1".repeat(200));
        assert!(readings(&long_path) >= 12, "{long_path}");
    }

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
