//! Equality, order and containment of values.

use std::cmp::Ordering;

use serde_json::Value;

use crate::{
    inner_steps::count,
    value::{
        datum::{Datum, to_text},
        decimal::NumberRank,
    },
};

pub(crate) fn datums_equal(left: &Datum<'_>, right: &Datum<'_>) -> bool {
    match (left, right) {
        (Datum::Empty | Datum::Blank, Datum::Empty | Datum::Blank) => true,
        (Datum::Empty, other) | (other, Datum::Empty) => is_empty(other),
        (Datum::Blank, other) | (other, Datum::Blank) => is_blank(other),
        (left, right) => values_equal(left, right),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

pub(crate) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => {
            count(text.len());
            text.trim().is_empty()
        }
        Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            is_empty(value)
        }
    }
}

/// Compares numbers by value (1.0 equals 1) and all other values as JSON.
pub(crate) fn values_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => {
            compare_values(left, right).is_some_and(Ordering::is_eq)
        }
        _ => {
            count_comparison(left, right);
            left == right
        }
    }
}

/// A comparison stops at the first difference, so it costs no more than the smaller value.
fn count_comparison(left: &Value, right: &Value) {
    count(match (left, right) {
        (Value::String(left), Value::String(right)) if left.len() == right.len() => left.len(),
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter().zip(right).for_each(|(left, right)| count_comparison(left, right));
            1
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            left.values()
                .zip(right.values())
                .for_each(|(left, right)| count_comparison(left, right));
            left.keys().map(String::len).sum()
        }
        _ => 1,
    });
}

/// The order of two numbers or two strings. Other values have no order.
pub(crate) fn compare_values(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            Some(match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => NumberRank::from_json_number(left.as_str())
                    .cmp(&NumberRank::from_json_number(right.as_str())),
            })
        }
        (Value::String(left), Value::String(right)) => {
            count(left.len().min(right.len()));
            Some(left.cmp(right))
        }
        _ => None,
    }
}

pub(crate) fn value_contains(left: &Value, right: &Value) -> bool {
    match left {
        Value::String(text) => {
            let wanted = to_text(right);
            count(text.len().saturating_add(wanted.len()));
            !right.is_null() && text.contains(&*wanted)
        }
        Value::Array(items) => items.iter().any(|it| values_equal(it, right)),
        Value::Object(object) => right.as_str().is_some_and(|it| object.contains_key(it)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
