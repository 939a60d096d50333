//! Arithmetic that is exact or fails, and type conversions.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{FilterResult, Input, list};
use crate::{
    inner_steps::count,
    value::{
        datum::{Datum, is_blank, to_text},
        decimal::{Decimal, DecimalResult},
    },
};

const TOO_LARGE: &str = "this number is too large to calculate with";

fn number_result<'a>(number: Decimal) -> FilterResult<'a> {
    number.into_value().map(Datum::Owned)
}

pub(crate) fn apply_to_number<'a>(
    input: &Input<'_, 'a>,
    calculate: fn(Decimal) -> DecimalResult,
) -> FilterResult<'a> {
    number_result(calculate(Decimal::from_value(&input.value)?)?)
}

pub(crate) fn apply_to_two_numbers<'a>(
    input: &Input<'_, 'a>,
    calculate: fn(Decimal, Decimal) -> DecimalResult,
) -> FilterResult<'a> {
    number_result(calculate(
        Decimal::from_value(&input.value)?,
        Decimal::from_value(&input.arguments.datum(0))?,
    )?)
}

pub(crate) fn at_least(left: Decimal, right: Decimal) -> DecimalResult {
    clamp(left, right, Ordering::Less)
}

pub(crate) fn at_most(left: Decimal, right: Decimal) -> DecimalResult {
    clamp(left, right, Ordering::Greater)
}

/// The right number if the left one is out of range.
fn clamp(left: Decimal, right: Decimal, out_of_range: Ordering) -> DecimalResult {
    let order = left.compare(right).ok_or(TOO_LARGE)?;
    Ok(if order == out_of_range { right } else { left })
}

pub(crate) fn round<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let places = arguments.count(0, "round takes a number of places")?.unwrap_or(0);
    number_result(Decimal::from_value(&value)?.round(u32::try_from(places).unwrap_or(u32::MAX))?)
}

pub(crate) fn sum<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let property = arguments.non_null(0).map(to_text);
    let mut sum = Decimal::from_value(&Value::Null)?;
    for item in list::items(&value) {
        sum = sum.plus(Decimal::from_value(list::keyed(item, property.as_deref()))?)?;
    }
    number_result(sum)
}

/// Also `stringify`: text unchanged, other values as compact JSON.
pub(crate) fn to_string<'a>(Input { value, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    match &*value {
        Value::Null | Value::String(_) => Ok(value),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Ok(Datum::from_text(to_text(&value)))
        }
    }
}

/// Converts digit by digit: a number of any length keeps its digits.
pub(crate) fn to_number<'a>(Input { value, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    match &*value {
        Value::Null | Value::Number(_) => Ok(value),
        Value::String(text) => parse_number(text.trim()).map(|it| Datum::Owned(Value::Number(it))),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err("this is not a number"),
    }
}

fn parse_number(text: &str) -> Result<Number, &'static str> {
    count(text.len());
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |it| ("-", it));
    let trimmed = digits.trim_start_matches('0');
    let starts = trimmed.starts_with(|it: char| it.is_ascii_digit());
    let zero = if digits.len() > trimmed.len() && !starts { "0" } else { "" };
    format!("{sign}{zero}{trimmed}").parse().map_err(|_| "this is not a number")
}

pub(crate) fn to_boolean<'a>(Input { value, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    match &*value {
        Value::Null | Value::Bool(_) => Ok(value),
        Value::String(text) if text.eq_ignore_ascii_case("true") => {
            Ok(Datum::Owned(Value::Bool(true)))
        }
        Value::String(text) if text.eq_ignore_ascii_case("false") => {
            Ok(Datum::Owned(Value::Bool(false)))
        }
        Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err("this is neither true nor false")
        }
    }
}

pub(crate) fn default<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let allow_false = arguments.flag(1)?;
    let is_text = value.is_string();
    let is_missing = match &*value {
        Value::Bool(false) => !allow_false,
        Value::String(text) => text.is_empty(),
        Value::Null | Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            !is_text && is_blank(&value)
        }
    };
    if !is_missing {
        return Ok(value);
    }
    Ok(arguments.datum(0))
}
