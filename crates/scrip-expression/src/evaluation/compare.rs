//! Conditions: what is equal, what is more, what contains what.

use std::cmp::Ordering;

use serde_json::Value;

use crate::{
    evaluation::{budget::weight, evaluate::Run},
    inner_steps::count,
    syntax::ast::{Comparison, Condition, Connector, Operand, Relation},
    value::{
        datum::{Datum, text_of},
        decimal::NumberRank,
    },
};

type Decided = Result<bool, &'static str>;

impl<'a> Run<'a> {
    pub(crate) fn condition(&self, condition: &'a Condition) -> Decided {
        let mut holds = true;
        for (comparison, connector) in &condition.terms {
            holds = self.comparison(comparison)?;
            match connector {
                Connector::And if !holds => break,
                Connector::Or if holds => break,
                Connector::And | Connector::Or | Connector::End => (),
            }
        }
        Ok(holds != condition.negated)
    }

    fn comparison(&self, comparison: &'a Comparison) -> Decided {
        self.budget.steps(1)?;
        let left = self.operand(&comparison.left)?;
        match &comparison.right {
            None => Ok(left.is_true()),
            Some((relation, right)) => self.related(&left, *relation, right),
        }
    }

    pub(crate) fn related(
        &self,
        left: &Datum<'_>,
        relation: Relation,
        right: &'a Operand,
    ) -> Decided {
        let right = self.operand(right)?;
        // Reading both costs what the smaller weighs; looking for something within costs all.
        let cost = match (relation, &**left, &*right) {
            // A number is read anew for every item that it is compared with.
            (Relation::Contains, Value::Array(items), Value::Number(number)) => {
                let each = number.as_str().len().saturating_mul(items.len());
                weight(left).saturating_add(each)
            }
            (Relation::Contains, _, _) => weight(left).saturating_add(weight(&right)),
            (_, Value::Number(left), Value::Number(right)) => {
                left.as_str().len().saturating_add(right.as_str().len())
            }
            _ if matches!(left, Datum::Blank) || matches!(right, Datum::Blank) => {
                weight(left).saturating_add(weight(&right))
            }
            (_, Value::String(left), Value::String(right)) => left.len().min(right.len()),
            (_, Value::Array(_) | Value::Object(_), Value::Array(_) | Value::Object(_)) => {
                weight(left).saturating_add(weight(&right))
            }
            (_, Value::String(text), _) | (_, _, Value::String(text)) => text.len(),
            _ => 0,
        };
        self.budget.bytes(cost)?;
        let order = |wanted: fn(Ordering) -> bool| order(left, &right).is_some_and(wanted);
        Ok(match relation {
            Relation::Equal => equal(left, &right),
            Relation::NotEqual => !equal(left, &right),
            Relation::Less => order(Ordering::is_lt),
            Relation::LessOrEqual => order(Ordering::is_le),
            Relation::Greater => order(Ordering::is_gt),
            Relation::GreaterOrEqual => order(Ordering::is_ge),
            Relation::Contains => contains(left, &right),
        })
    }
}

fn equal(left: &Datum<'_>, right: &Datum<'_>) -> bool {
    match (left, right) {
        (Datum::Empty | Datum::Blank, Datum::Empty | Datum::Blank) => true,
        (Datum::Empty, other) | (other, Datum::Empty) => is_empty(other),
        (Datum::Blank, other) | (other, Datum::Blank) => is_blank(other),
        (left, right) => same(left, right),
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

/// Numbers by what they amount to, so that 1.0 is 1; anything else as JSON has it.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => order(left, right).is_some_and(Ordering::is_eq),
        _ => {
            count_compared(left, right);
            left == right
        }
    }
}

/// Stops at the first difference, so it costs no more than the smaller one.
fn count_compared(left: &Value, right: &Value) {
    count(match (left, right) {
        (Value::String(left), Value::String(right)) if left.len() == right.len() => left.len(),
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter().zip(right).for_each(|(left, right)| count_compared(left, right));
            1
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            left.values().zip(right.values()).for_each(|(left, right)| count_compared(left, right));
            left.keys().map(String::len).sum()
        }
        _ => 1,
    });
}

/// Between two numbers or two texts; there is none between anything else.
pub(crate) fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            Some(match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => NumberRank::of(left.as_str()).cmp(&NumberRank::of(right.as_str())),
            })
        }
        (Value::String(left), Value::String(right)) => {
            count(left.len().min(right.len()));
            Some(left.cmp(right))
        }
        _ => None,
    }
}

fn contains(left: &Value, right: &Value) -> bool {
    match left {
        Value::String(text) => {
            let wanted = text_of(right);
            count(text.len().saturating_add(wanted.len()));
            !right.is_null() && text.contains(&*wanted)
        }
        Value::Array(items) => items.iter().any(|it| same(it, right)),
        Value::Object(object) => right.as_str().is_some_and(|it| object.contains_key(it)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
