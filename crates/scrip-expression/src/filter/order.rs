//! Filters that put a list in order or take out what is twice.

use std::{cmp::Ordering, collections::HashSet};

use serde_json::Value;

use super::{Context, Filtered, argument, list};
use crate::{
    compare::order,
    datum::{Datum, text_of},
};

/// Total, so that the same list always comes out the same: numbers, text, anything else by its
/// JSON, null last.
pub(crate) fn sort<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => 2,
            Value::Null => 3,
        }
    }
    let by_text = |left: &Value, right: &Value| text_of(left).cmp(&text_of(right));
    sorted(context, value, arguments, |left, right| {
        let same_rank = || order(left, right).unwrap_or_else(|| by_text(left, right));
        rank(left).cmp(&rank(right)).then_with(same_rank)
    })
}

/// By text, upper and lower case alike, null last.
pub(crate) fn sort_natural<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let folded = |it: &Value| (it.is_null(), text_of(it).to_lowercase());
    sorted(context, value, arguments, |left, right| folded(left).cmp(&folded(right)))
}

/// Sorting reads each item about as often as the count has bits.
fn sorted<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
    compare: impl Fn(&Value, &Value) -> Ordering,
) -> Filtered<'a> {
    let name = argument::given(arguments, 0).map(text_of);
    let mut items = list::owned(value);
    // Numbers are read anew in each comparison, so a turn of the sort costs steps as well.
    context.budget.steps(items.len() / 16)?;
    items.sort_by(|left, right| match &name {
        None => compare(left, right),
        Some(name) => compare(list::property(left, name), list::property(right, name)),
    });
    Ok(Datum::Owned(Value::Array(items)))
}

/// The first of those that are the same.
pub(crate) fn uniq<'a>(_: &Context<'_>, value: Datum<'a>, arguments: &[Datum<'a>]) -> Filtered<'a> {
    let name = argument::given(arguments, 0).map(text_of);
    let mut seen = HashSet::new();
    let mut items = list::owned(value);
    // JSON text tells 1 from "1".
    items.retain(|it| match &name {
        None => seen.insert(it.to_string()),
        Some(name) => seen.insert(list::property(it, name).to_string()),
    });
    Ok(Datum::Owned(Value::Array(items)))
}
