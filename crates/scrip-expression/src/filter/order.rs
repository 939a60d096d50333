//! Filters that sort a list or remove duplicates.

use std::collections::HashSet;

use serde_json::Value;

use super::{FilterResult, Input, list};
use crate::{
    budget::value_cost,
    inner_steps::count,
    value::{
        datum::{Datum, to_text},
        decimal::NumberRank,
    },
};

/// The sort key of an item, computed once per item. The order is total, so sorting is
/// deterministic: numbers, text, other values by their JSON, null last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Number(NumberRank),
    Text(String),
    Other(String),
    Null,
}

impl SortKey {
    /// The maximum cost of a comparison.
    fn comparison_cost(&self) -> usize {
        match self {
            Self::Number(rank) => rank.digit_count(),
            Self::Text(text) | Self::Other(text) => text.len(),
            Self::Null => 0,
        }
    }
}

pub(crate) fn sort<'a>(input: Input<'_, 'a>) -> FilterResult<'a> {
    sort_by_key(input, |item| match item {
        Value::Number(number) => SortKey::Number(NumberRank::from_json_number(number.as_str())),
        Value::String(text) => {
            count(text.len());
            SortKey::Text(text.clone())
        }
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            SortKey::Other(to_text(item).into_owned())
        }
        Value::Null => SortKey::Null,
    })
}

/// Sorts as text, ignoring case, with null last.
pub(crate) fn sort_natural<'a>(input: Input<'_, 'a>) -> FilterResult<'a> {
    sort_by_key(input, |item| match item {
        Value::Null => SortKey::Null,
        Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            let text = to_text(item).to_lowercase();
            count(text.len());
            SortKey::Text(text)
        }
    })
}

fn sort_by_key<'a>(input: Input<'_, 'a>, sort_key: fn(&Value) -> SortKey) -> FilterResult<'a> {
    /// A comparison takes a few nanoseconds; a step stands for a few hundred.
    const ITEMS_PER_STEP: usize = 16;
    /// Text is compared several bytes at a time.
    const COMPARED_PER_BYTE: usize = 4;
    let name = input.arguments.non_null(0).map(to_text);
    // The sort keys are about as large as the list.
    input.budget.charge_value(&input.value)?;
    let items = list::into_items(input.value);
    input.budget.charge_steps(items.len() / ITEMS_PER_STEP)?;
    // Each item takes part in about log2(n) comparisons.
    let rounds = usize::try_from(items.len().checked_ilog2().unwrap_or_default()).unwrap_or(0);
    let compared = items.iter().map(value_cost).sum::<usize>() / COMPARED_PER_BYTE;
    input.budget.charge_bytes(compared.saturating_mul(rounds))?;
    let mut keyed_items: Vec<_> = items
        .into_iter()
        .map(|item| (sort_key(list::keyed(&item, name.as_deref())), item))
        .collect();
    // Stable: equal items stay in order.
    keyed_items.sort_by(|(left, _), (right, _)| {
        count(left.comparison_cost().min(right.comparison_cost()).saturating_add(1));
        left.cmp(right)
    });
    Ok(Datum::Owned(Value::Array(keyed_items.into_iter().map(|(_, item)| item).collect())))
}

/// Keeps the first of equal items.
pub(crate) fn uniq<'a>(Input { value, arguments, budget, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let name = arguments.non_null(0).map(to_text);
    budget.charge_value(&value)?;
    let mut texts = HashSet::new();
    let mut items = list::into_items(value);
    // JSON text distinguishes 1 from "1".
    items.retain(|it| {
        let text = list::keyed(it, name.as_deref()).to_string();
        count(text.len().saturating_mul(2));
        texts.insert(text)
    });
    Ok(Datum::Owned(Value::Array(items)))
}
