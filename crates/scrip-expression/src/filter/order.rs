//! Filters that put a list in order or take out what is twice.

use std::collections::HashSet;

use serde_json::Value;

use super::{Context, Filtered, argument, list};
use crate::{
    datum::{Datum, text_of},
    decimal::NumberRank,
};

/// What an item is sorted by, made once for each. The order is total, so that the same list always
/// comes out the same: numbers, text, anything else by its JSON, null last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Number(NumberRank),
    Text(String),
    Other(String),
    Null,
}

pub(crate) fn sort<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    sorted(context, value, arguments, |item| match item {
        Value::Number(number) => Rank::Number(NumberRank::of(number.as_str())),
        Value::String(text) => Rank::Text(text.clone()),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Rank::Other(item.to_string()),
        Value::Null => Rank::Null,
    })
}

/// By text, upper and lower case alike, null last.
pub(crate) fn sort_natural<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    sorted(context, value, arguments, |item| match item {
        Value::Null => Rank::Null,
        Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => Rank::Text(text_of(item).to_lowercase()),
    })
}

fn sorted<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
    rank: fn(&Value) -> Rank,
) -> Filtered<'a> {
    /// Comparing costs a few nanoseconds, a step stands for some hundred.
    const ITEMS_PER_STEP: usize = 16;
    let name = argument::given(arguments, 0).map(text_of);
    // The ranks are about as large as the list.
    context.budget.value(&value)?;
    let mut items = list::owned(value);
    context.budget.steps(items.len() / ITEMS_PER_STEP)?;
    items.sort_by_cached_key(|item| match &name {
        None => rank(item),
        Some(name) => rank(list::property(item, name)),
    });
    Ok(Datum::Owned(Value::Array(items)))
}

/// The first of those that are the same.
pub(crate) fn uniq<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let name = argument::given(arguments, 0).map(text_of);
    context.budget.value(&value)?;
    let mut seen = HashSet::new();
    let mut items = list::owned(value);
    // JSON text tells 1 from "1".
    items.retain(|it| match &name {
        None => seen.insert(it.to_string()),
        Some(name) => seen.insert(list::property(it, name).to_string()),
    });
    Ok(Datum::Owned(Value::Array(items)))
}
