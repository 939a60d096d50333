//! `JSONPath` (RFC 9535), held to paths that cannot cost more than a few readings of the value.

use serde_json_path::JsonPath;

use super::{Filtered, Input};
use crate::{
    evaluation::budget::weight,
    inner_steps::{count, count_value},
    value::datum::Datum,
};

/// What a path may be made of. Two `..`, nested conditions or many lists of selectors multiply with
/// each other, and the library's parser recurses: none of that finds one value in a token.
const PATH_BYTES_MAX: usize = 256;
const DEPTH_MAX: usize = 8;
const DESCENTS_MAX: usize = 1;
const CONDITIONS_MAX: usize = 1;
const COMMAS_MAX: usize = 3;
const LITERAL_BYTES_PER_READING: usize = 16;

#[derive(Debug, Clone)]
pub(crate) struct Query {
    path: JsonPath,
    /// How often it may read the value; nought when it only walks down.
    readings: usize,
}

#[derive(Debug, Default)]
struct Shape {
    depth: usize,
    depth_max: usize,
    descents: usize,
    conditions: usize,
    commas: u32,
    roots: usize,
    /// Dots, brackets, mentions of the current node, and operators: each is work for every node that
    /// a condition looks at, also where it compares literals only.
    parts: usize,
    many: bool,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let shape = Shape::of(text);
        let fits = text.len() <= PATH_BYTES_MAX
            && shape.depth_max <= DEPTH_MAX
            && shape.descents <= DESCENTS_MAX
            && shape.conditions <= CONDITIONS_MAX
            && usize::try_from(shape.commas).is_ok_and(|it| it <= COMMAS_MAX)
            && shape.roots <= 1;
        if !fits {
            return Err("this JSONPath is too complex");
        }
        let path = JsonPath::parse(text).map_err(|_| "this is not a JSONPath")?;
        // Each comma may double what the next part looks at.
        let readings = shape.parts.saturating_mul(2_usize.saturating_pow(shape.commas));
        // Long literals are compared again for each node.
        let readings = readings.saturating_add(text.len() / LITERAL_BYTES_PER_READING);
        Ok(Self { path, readings: if shape.many { readings } else { 0 } })
    }
}

impl Shape {
    /// Of what stands outside quotes.
    fn of(text: &str) -> Self {
        let mut shape = Self::default();
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
                (None, _) => shape.see(previous, c),
            }
            previous = c;
        }
        shape
    }

    fn see(&mut self, previous: char, c: char) {
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
                    self.many = true;
                }
            }
            '?' => {
                self.conditions = self.conditions.saturating_add(1);
                self.many = true;
            }
            ',' => {
                self.commas = self.commas.saturating_add(1);
                self.many = true;
            }
            '$' => self.roots = self.roots.saturating_add(1),
            '@' | '&' | '|' | '!' | '=' | '<' | '>' => self.parts = self.parts.saturating_add(1),
            '*' | ':' => self.many = true,
            _ => (),
        }
    }
}

/// Nothing found is null, as a missing property is.
pub(crate) fn json<'a>(Input { value, budget, query, .. }: Input<'_, 'a>) -> Filtered<'a> {
    const SEVERAL: &str = "json found more than one value";
    let query = query.ok_or("json takes a path in quotes")?;
    budget.bytes(weight(&value).saturating_mul(query.readings))?;
    if let Datum::Borrowed(value) = value {
        let found = query.path.query(value);
        count(found.len());
        let found = found.at_most_one().map_err(|_| SEVERAL)?;
        return Ok(found.map_or_else(Datum::null, Datum::Borrowed));
    }
    let found = query.path.query(&value);
    count(found.len());
    let found = found.at_most_one().map_err(|_| SEVERAL)?.inspect(|it| count_value(it));
    Ok(found.cloned().map_or_else(Datum::null, Datum::Owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(path: &str) -> usize {
        Query::parse(path).unwrap().readings
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
        let long = format!("$[?{}>2]", "1".repeat(200));
        assert!(readings(&long) >= 12, "{long}");
    }
}
