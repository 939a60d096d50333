//! Arithmetic that is exact or fails.

use std::cmp::Ordering;

use super::{FilterResult, Input, list};
use crate::value::{
    datum::Datum,
    decimal::{Decimal, DecimalResult},
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
    let property = arguments.non_null(0).map(crate::value::datum::to_text);
    let mut sum = Decimal::from_value(&serde_json::Value::Null)?;
    for item in list::items(&value) {
        sum = sum.plus(Decimal::from_value(list::keyed(item, property.as_deref()))?)?;
    }
    number_result(sum)
}
