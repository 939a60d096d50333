//! Filters that put a list in order or take out what is twice.

use std::collections::HashSet;

use serde_json::Value;

use super::{Filtered, Input, list};
use crate::{
    evaluation::budget::weight,
    inner_steps::count,
    value::{
        datum::{Datum, text_of},
        decimal::NumberRank,
    },
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

impl Rank {
    /// What comparing it costs at most.
    fn bytes(&self) -> usize {
        match self {
            Self::Number(rank) => rank.digits(),
            Self::Text(text) | Self::Other(text) => text.len(),
            Self::Null => 0,
        }
    }
}

pub(crate) fn sort<'a>(input: Input<'_, 'a>) -> Filtered<'a> {
    sorted(input, |item| match item {
        Value::Number(number) => Rank::Number(NumberRank::of(number.as_str())),
        Value::String(text) => {
            count(text.len());
            Rank::Text(text.clone())
        }
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Rank::Other(text_of(item).into_owned())
        }
        Value::Null => Rank::Null,
    })
}

/// By text, upper and lower case alike, null last.
pub(crate) fn sort_natural<'a>(input: Input<'_, 'a>) -> Filtered<'a> {
    sorted(input, |item| match item {
        Value::Null => Rank::Null,
        Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            let text = text_of(item).to_lowercase();
            count(text.len());
            Rank::Text(text)
        }
    })
}

fn sorted<'a>(input: Input<'_, 'a>, rank: fn(&Value) -> Rank) -> Filtered<'a> {
    /// Comparing costs a few nanoseconds, a step stands for some hundred.
    const ITEMS_PER_STEP: usize = 16;
    /// Texts are compared several bytes at a time.
    const COMPARED_PER_BYTE: usize = 4;
    let name = input.arguments.given(0).map(text_of);
    // The ranks are about as large as the list.
    input.budget.value(&input.value)?;
    let items = list::owned(input.value);
    input.budget.steps(items.len() / ITEMS_PER_STEP)?;
    // Each item takes part in about as many comparisons as its place has binary digits.
    let rounds = usize::try_from(items.len().checked_ilog2().unwrap_or_default()).unwrap_or(0);
    let compared = items.iter().map(weight).sum::<usize>() / COMPARED_PER_BYTE;
    input.budget.bytes(compared.saturating_mul(rounds))?;
    let mut ranked: Vec<_> =
        items.into_iter().map(|item| (rank(list::keyed(&item, name.as_deref())), item)).collect();
    // Stable: equal ones stay in their order.
    ranked.sort_by(|(left, _), (right, _)| {
        count(left.bytes().min(right.bytes()).saturating_add(1));
        left.cmp(right)
    });
    Ok(Datum::Owned(Value::Array(ranked.into_iter().map(|(_, item)| item).collect())))
}

/// The first of those that are the same.
pub(crate) fn uniq<'a>(Input { value, arguments, budget, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let name = arguments.given(0).map(text_of);
    budget.value(&value)?;
    let mut seen = HashSet::new();
    let mut items = list::owned(value);
    // JSON text tells 1 from "1".
    items.retain(|it| {
        let text = list::keyed(it, name.as_deref()).to_string();
        count(text.len().saturating_mul(2));
        seen.insert(text)
    });
    Ok(Datum::Owned(Value::Array(items)))
}
