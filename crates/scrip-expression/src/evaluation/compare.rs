//! Evaluates conditions.

use std::cmp::Ordering;

use serde_json::Value;

use crate::{
    budget::value_cost,
    evaluation::evaluate::Evaluator,
    syntax::ast::{Comparison, Condition, Connector, Operand, Relation},
    value::{
        comparison::{compare_values, datums_equal, value_contains},
        datum::Datum,
    },
};

type ConditionResult = Result<bool, &'static str>;

impl<'a> Evaluator<'a> {
    pub(crate) fn evaluate_condition(&self, condition: &'a Condition) -> ConditionResult {
        let mut is_true = true;
        for (comparison, connector) in &condition.terms {
            is_true = self.evaluate_comparison(comparison)?;
            match connector {
                Connector::And if !is_true => break,
                Connector::Or if is_true => break,
                Connector::And | Connector::Or | Connector::End => (),
            }
        }
        Ok(is_true != condition.negated)
    }

    fn evaluate_comparison(&self, comparison: &'a Comparison) -> ConditionResult {
        self.budget.charge_steps(1)?;
        let left = self.evaluate_operand(&comparison.left)?;
        match &comparison.right {
            None => Ok(left.is_true()),
            Some((relation, right)) => self.compare(&left, *relation, right),
        }
    }

    pub(crate) fn compare(
        &self,
        left: &Datum<'_>,
        relation: Relation,
        right: &'a Operand,
    ) -> ConditionResult {
        let right = self.evaluate_operand(right)?;
        // Comparing costs as much as the smaller value; searching costs as much as the whole value.
        let cost = match (relation, &**left, &*right) {
            // The number is parsed again for every compared item.
            (Relation::Contains, Value::Array(items), Value::Number(number)) => {
                let number_cost = number.as_str().len().saturating_mul(items.len());
                value_cost(left).saturating_add(number_cost)
            }
            (Relation::Contains, _, _) => value_cost(left).saturating_add(value_cost(&right)),
            (_, Value::Number(left), Value::Number(right)) => {
                left.as_str().len().saturating_add(right.as_str().len())
            }
            _ if matches!(left, Datum::Blank) || matches!(right, Datum::Blank) => {
                value_cost(left).saturating_add(value_cost(&right))
            }
            (_, Value::String(left), Value::String(right)) => left.len().min(right.len()),
            (_, Value::Array(_) | Value::Object(_), Value::Array(_) | Value::Object(_)) => {
                value_cost(left).saturating_add(value_cost(&right))
            }
            (_, Value::String(text), _) | (_, _, Value::String(text)) => text.len(),
            _ => 0,
        };
        self.budget.charge_bytes(cost)?;
        let order = |wanted: fn(Ordering) -> bool| compare_values(left, &right).is_some_and(wanted);
        Ok(match relation {
            Relation::Equal => datums_equal(left, &right),
            Relation::NotEqual => !datums_equal(left, &right),
            Relation::Less => order(Ordering::is_lt),
            Relation::LessOrEqual => order(Ordering::is_le),
            Relation::Greater => order(Ordering::is_gt),
            Relation::GreaterOrEqual => order(Ordering::is_ge),
            Relation::Contains => value_contains(left, &right),
        })
    }
}
