//! Arithmetic, exact or refused.

use std::cmp::Ordering;

use super::{Context, Filtered, argument, cast::decimal, list};
use crate::value::{datum::Datum, decimal::Decimal};

const TOO_LARGE: &str = "this number is too large to calculate with";

fn made<'a>(number: Decimal) -> Filtered<'a> {
    number.into_value().map(Datum::Owned)
}

fn with<'a>(
    value: &Datum<'a>,
    arguments: &[Datum<'a>],
    calculate: impl FnOnce(Decimal, Decimal) -> Result<Decimal, &'static str>,
) -> Filtered<'a> {
    let other = arguments.first().cloned().unwrap_or_else(Datum::null);
    made(calculate(decimal(value)?, decimal(&other)?)?)
}

pub(crate) fn plus<'a>(_: &Context<'_>, value: Datum<'a>, with_: &[Datum<'a>]) -> Filtered<'a> {
    with(&value, with_, Decimal::plus)
}

pub(crate) fn minus<'a>(_: &Context<'_>, value: Datum<'a>, with_: &[Datum<'a>]) -> Filtered<'a> {
    with(&value, with_, Decimal::minus)
}

pub(crate) fn times<'a>(_: &Context<'_>, value: Datum<'a>, with_: &[Datum<'a>]) -> Filtered<'a> {
    with(&value, with_, Decimal::times)
}

pub(crate) fn divided_by<'a>(_: &Context<'_>, value: Datum<'a>, by: &[Datum<'a>]) -> Filtered<'a> {
    with(&value, by, Decimal::divided_by)
}

pub(crate) fn modulo<'a>(_: &Context<'_>, value: Datum<'a>, by: &[Datum<'a>]) -> Filtered<'a> {
    with(&value, by, Decimal::modulo)
}

pub(crate) fn at_least<'a>(_: &Context<'_>, value: Datum<'a>, least: &[Datum<'a>]) -> Filtered<'a> {
    with(&value, least, |left, right| chosen(left, right, Ordering::Less))
}

pub(crate) fn at_most<'a>(_: &Context<'_>, value: Datum<'a>, most: &[Datum<'a>]) -> Filtered<'a> {
    with(&value, most, |left, right| chosen(left, right, Ordering::Greater))
}

/// The right one when the left is on the wrong side of it.
fn chosen(left: Decimal, right: Decimal, wrong: Ordering) -> Result<Decimal, &'static str> {
    let order = left.order(right).ok_or(TOO_LARGE)?;
    Ok(if order == wrong { right } else { left })
}

pub(crate) fn abs<'a>(_: &Context<'_>, value: Datum<'a>, _: &[Datum<'a>]) -> Filtered<'a> {
    made(decimal(&value)?.abs()?)
}

pub(crate) fn ceil<'a>(_: &Context<'_>, value: Datum<'a>, _: &[Datum<'a>]) -> Filtered<'a> {
    made(decimal(&value)?.ceil()?)
}

pub(crate) fn floor<'a>(_: &Context<'_>, value: Datum<'a>, _: &[Datum<'a>]) -> Filtered<'a> {
    made(decimal(&value)?.floor()?)
}

pub(crate) fn round<'a>(_: &Context<'_>, value: Datum<'a>, places: &[Datum<'a>]) -> Filtered<'a> {
    let places = argument::count(places, 0, "round takes a number of places")?.unwrap_or(0);
    made(decimal(&value)?.rounded(u32::try_from(places).unwrap_or(u32::MAX))?)
}

pub(crate) fn sum<'a>(_: &Context<'_>, value: Datum<'a>, arguments: &[Datum<'a>]) -> Filtered<'a> {
    let property = argument::given(arguments, 0).map(crate::value::datum::text_of);
    let mut sum = decimal(&serde_json::Value::Null)?;
    for item in list::items(&value) {
        let number = match &property {
            None => decimal(item)?,
            Some(name) => decimal(list::property(item, name))?,
        };
        sum = sum.plus(number)?;
    }
    made(sum)
}
