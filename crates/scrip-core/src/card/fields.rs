//! Checks of attributes that several token types share, and the digits of a number that masks show.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::FieldError;

/// Checks an attribute that must exist and be text.
pub(crate) fn check_required(
    object: &Map<String, Value>,
    name: &str,
    field: &'static str,
    check: impl Fn(&str) -> Result<(), &'static str>,
) -> Option<FieldError> {
    let problem = match object.get(name) {
        None => Some("is required"),
        Some(Value::String(text)) => check(text).err(),
        Some(other) => Some(text_rule(other)),
    };
    problem.map(|it| FieldError::new(field, it))
}

/// The rule that a value breaks which must be text.
pub(crate) fn text_rule(value: &Value) -> &'static str {
    match value.is_number() {
        true => "must be text: write the number in quotes",
        false => "must be text",
    }
}

/// Whether a value is not an integer in the range. An absent value is in range.
pub(crate) fn is_out_of_range(value: Option<&Value>, range: RangeInclusive<u64>) -> bool {
    value.is_some_and(|it| !it.as_u64().is_some_and(|it| range.contains(&it)))
}

/// The length of the BIN: six digits, or eight for numbers of sixteen digits or more.
pub(crate) fn bin_len(number: &str) -> usize {
    if number.len() >= 16 { 8 } else { 6 }
}

/// Whether both numbers have the same mask.
pub(crate) fn has_same_mask(number: &str, other: &str) -> bool {
    let (bin_end, last_four_start) = (bin_len(number), number.len().saturating_sub(4));
    number.len() == other.len()
        && number.get(..bin_end) == other.get(..bin_end)
        && number.get(last_four_start..) == other.get(last_four_start..)
}
