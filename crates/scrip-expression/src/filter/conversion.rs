//! Type conversions.

use serde_json::{Number, Value};

use super::{FilterResult, Input};
use crate::{
    inner_steps::count,
    value::comparison::is_blank,
    value::datum::{Datum, to_text},
};

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
