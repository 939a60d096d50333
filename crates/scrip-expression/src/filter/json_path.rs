//! `JSONPath` (RFC 9535), limited to paths that read the value at most a few times.

mod plain_path;

use serde_json_path::JsonPath;

use self::plain_path::PlainPath;
pub(crate) use self::plain_path::PlainStep;

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

#[cfg(test)]
mod tests {
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
}
