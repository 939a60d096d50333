//! Arithmetic, exact or refused.

use std::cmp::Ordering;

use super::{Filtered, Input, list};
use crate::value::{
    datum::Datum,
    decimal::{Calculated, Decimal},
};

const TOO_LARGE: &str = "this number is too large to calculate with";

fn made<'a>(number: Decimal) -> Filtered<'a> {
    number.into_value().map(Datum::Owned)
}

pub(crate) fn apply_to_number<'a>(
    input: &Input<'_, 'a>,
    calculate: fn(Decimal) -> Calculated,
) -> Filtered<'a> {
    made(calculate(Decimal::of(&input.value)?)?)
}

pub(crate) fn apply_to_two_numbers<'a>(
    input: &Input<'_, 'a>,
    calculate: fn(Decimal, Decimal) -> Calculated,
) -> Filtered<'a> {
    made(calculate(Decimal::of(&input.value)?, Decimal::of(&input.arguments.datum(0))?)?)
}

pub(crate) fn at_least(left: Decimal, right: Decimal) -> Calculated {
    chosen(left, right, Ordering::Less)
}

pub(crate) fn at_most(left: Decimal, right: Decimal) -> Calculated {
    chosen(left, right, Ordering::Greater)
}

/// The right one when the left is on the wrong side of it.
fn chosen(left: Decimal, right: Decimal, wrong: Ordering) -> Calculated {
    let order = left.order(right).ok_or(TOO_LARGE)?;
    Ok(if order == wrong { right } else { left })
}

pub(crate) fn round<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let places = arguments.count(0, "round takes a number of places")?.unwrap_or(0);
    made(Decimal::of(&value)?.rounded(u32::try_from(places).unwrap_or(u32::MAX))?)
}

pub(crate) fn sum<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let property = arguments.given(0).map(crate::value::datum::text_of);
    let mut sum = Decimal::of(&serde_json::Value::Null)?;
    for item in list::items(&value) {
        sum = sum.plus(Decimal::of(list::keyed(item, property.as_deref()))?)?;
    }
    made(sum)
}
