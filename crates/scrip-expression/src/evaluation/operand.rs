//! Evaluates operands.

use serde_json::Value;

use crate::{
    evaluation::evaluate::{Evaluator, short_text},
    inner_steps::{self, count, count_value},
    syntax::ast::{LoopProperty, Operand, Path, Root, Step},
    value::datum::{Datum, to_text},
};

type OperandResult<T> = Result<T, &'static str>;

impl<'a> Evaluator<'a> {
    pub(crate) fn evaluate_operand(&self, operand: &'a Operand) -> OperandResult<Datum<'a>> {
        match operand {
            Operand::Literal(value) => Ok(Datum::Borrowed(value)),
            Operand::Empty => Ok(Datum::Empty),
            Operand::Blank => Ok(Datum::Blank),
            Operand::Path(path) => self.evaluate_path(path),
            Operand::Loop(property) => Ok(Datum::Owned(self.loop_property_value(*property))),
            Operand::Range(ends) => self.evaluate_range(&ends.0, &ends.1),
        }
    }

    fn evaluate_path(&self, path: &'a Path) -> OperandResult<Datum<'a>> {
        self.budget.charge_steps(path.steps.len())?;
        let slot_value;
        let root = match path.root {
            Root::Data => self.data,
            Root::Metadata => match self.metadata {
                Some(metadata) => metadata,
                None => return Ok(Datum::null()),
            },
            Root::Slot(slot) => match self.slots.get(slot) {
                Some(Datum::Borrowed(value)) => *value,
                Some(other) if path.steps.is_empty() => return Ok(other.clone()),
                Some(other) => {
                    slot_value = other;
                    return self.copy_from_slot(slot_value, &path.steps);
                }
                None => return Ok(Datum::null()),
            },
        };
        match self.follow_steps(root, &path.steps)? {
            FollowedPath::Existing(value) => Ok(Datum::Borrowed(value)),
            FollowedPath::Computed(value) => Ok(Datum::Owned(value)),
        }
    }

    /// Copies a part of a variable's value: the variable may change before the part is used.
    fn copy_from_slot(&self, slot_value: &Value, steps: &'a [Step]) -> OperandResult<Datum<'a>> {
        Ok(Datum::Owned(match self.follow_steps(slot_value, steps)? {
            FollowedPath::Existing(value) => {
                self.budget.charge_value(value)?;
                count_value(value);
                value.clone()
            }
            FollowedPath::Computed(value) => value,
        }))
    }

    /// A missing property is null.
    fn follow_steps<'v>(
        &self,
        mut value: &'v Value,
        steps: &'a [Step],
    ) -> OperandResult<FollowedPath<'v>> {
        for (step_index, step) in steps.iter().enumerate() {
            let next_value = match step {
                Step::Name(name) => match self.charged_property(value, name)? {
                    Some(next_value) => Some(next_value),
                    None => {
                        let is_last = step_index.saturating_add(1) == steps.len();
                        let size = (is_last && name == "size").then(|| self.charged_size(value));
                        return Ok(FollowedPath::Computed(
                            size.transpose()?.unwrap_or(Value::Null),
                        ));
                    }
                },
                Step::Index(index) => indexed_value(value, *index),
                Step::Computed(operand) => {
                    let index = self.evaluate_operand(operand)?;
                    match index.as_i64() {
                        Some(index) => indexed_value(value, index),
                        None => {
                            // A list or an object is converted to text first.
                            self.budget.charge_value(&index)?;
                            self.charged_property(value, &to_text(&index))?
                        }
                    }
                }
            };
            match next_value {
                Some(next_value) => value = next_value,
                None => return Ok(FollowedPath::Computed(Value::Null)),
            }
        }
        Ok(FollowedPath::Existing(value))
    }

    /// A name from the data may be as long as a body, and is compared with many names.
    fn charged_property<'v>(
        &self,
        value: &'v Value,
        name: &str,
    ) -> OperandResult<Option<&'v Value>> {
        self.budget.charge_bytes(name.len())?;
        count(name.len());
        Ok(property_value(value, name))
    }

    fn charged_size(&self, value: &Value) -> OperandResult<Value> {
        Ok(match value {
            Value::String(text) => {
                self.budget.charge_bytes(text.len())?;
                count(text.len());
                Value::from(text.chars().count())
            }
            Value::Array(items) => Value::from(items.len()),
            Value::Object(object) => Value::from(object.len()),
            Value::Null | Value::Bool(_) | Value::Number(_) => Value::Null,
        })
    }

    fn loop_property_value(&self, property: LoopProperty) -> Value {
        let Some((index, length)) = self.loop_positions.last().copied() else { return Value::Null };
        let remaining = length.saturating_sub(index);
        match property {
            LoopProperty::Index => Value::from(index.saturating_add(1)),
            LoopProperty::Index0 => Value::from(index),
            LoopProperty::Rindex => Value::from(remaining),
            LoopProperty::Rindex0 => Value::from(remaining.saturating_sub(1)),
            LoopProperty::First => Value::from(index == 0),
            LoopProperty::Last => Value::from(remaining == 1),
            LoopProperty::Length => Value::from(length),
        }
    }

    /// Each number of a range is charged as a step before it is created.
    fn evaluate_range(&self, first: &'a Operand, last: &'a Operand) -> OperandResult<Datum<'a>> {
        let evaluate_integer = |operand| {
            let bound = self.evaluate_operand(operand)?;
            bound
                .as_i64()
                .or_else(|| short_text(&bound)?.parse().ok())
                .ok_or("the ends of a range must be whole numbers")
        };
        let (first, last): (i64, i64) = (evaluate_integer(first)?, evaluate_integer(last)?);
        if first > last {
            return Ok(Datum::Owned(Value::Array(Vec::new())));
        }
        let count = last.checked_sub(first).and_then(|it| usize::try_from(it).ok());
        let count = count.unwrap_or(usize::MAX);
        self.budget.charge_steps(count)?;
        inner_steps::count(count);
        Ok(Datum::Owned((first..=last).map(Value::from).collect()))
    }
}

enum FollowedPath<'v> {
    Existing(&'v Value),
    Computed(Value),
}

fn property_value<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(object) => object.get(name),
        Value::Array(items) => match name {
            "first" => items.first(),
            "last" => items.last(),
            _ => items.get(name.parse::<usize>().ok()?),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Returns the item at an index, which counts from the end if negative.
fn indexed_value(value: &Value, index: i64) -> Option<&Value> {
    match value {
        Value::Array(items) => {
            let from_end = usize::try_from(index.unsigned_abs()).ok()?;
            match usize::try_from(index) {
                Ok(position) => items.get(position),
                Err(_) => items.get(items.len().checked_sub(from_end)?),
            }
        }
        Value::Object(object) => object.get(&index.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
