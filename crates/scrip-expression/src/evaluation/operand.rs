//! What an operand stands for.

use serde_json::Value;

use crate::{
    evaluation::evaluate::{Run, short},
    inner_steps::{self, count, count_value},
    syntax::ast::{LoopProperty, Operand, Path, Root, Step},
    value::datum::{Datum, text_of},
};

type Found<T> = Result<T, &'static str>;

impl<'a> Run<'a> {
    pub(crate) fn operand(&self, operand: &'a Operand) -> Found<Datum<'a>> {
        match operand {
            Operand::Literal(value) => Ok(Datum::Borrowed(value)),
            Operand::Empty => Ok(Datum::Empty),
            Operand::Blank => Ok(Datum::Blank),
            Operand::Path(path) => self.path(path),
            Operand::Loop(property) => Ok(Datum::Owned(self.loop_property(*property))),
            Operand::Range(ends) => self.range(&ends.0, &ends.1),
        }
    }

    fn path(&self, path: &'a Path) -> Found<Datum<'a>> {
        self.budget.steps(path.steps.len())?;
        let held;
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
                    held = other;
                    return self.within(held, &path.steps);
                }
                None => return Ok(Datum::null()),
            },
        };
        match self.walk(root, &path.steps)? {
            Walked::There(value) => Ok(Datum::Borrowed(value)),
            Walked::Made(value) => Ok(Datum::Owned(value)),
        }
    }

    /// A part of what a variable holds is copied: the variable may change before the part is used.
    fn within(&self, held: &Value, steps: &'a [Step]) -> Found<Datum<'a>> {
        Ok(Datum::Owned(match self.walk(held, steps)? {
            Walked::There(value) => {
                self.budget.value(value)?;
                count_value(value);
                value.clone()
            }
            Walked::Made(value) => value,
        }))
    }

    /// A missing property is null.
    fn walk<'v>(&self, mut value: &'v Value, steps: &'a [Step]) -> Found<Walked<'v>> {
        for (at, step) in steps.iter().enumerate() {
            let found = match step {
                Step::Name(name) => match self.property(value, name)? {
                    Some(found) => Some(found),
                    None => {
                        let is_last = at.saturating_add(1) == steps.len();
                        let size = (is_last && name == "size").then(|| self.size(value));
                        return Ok(Walked::Made(size.transpose()?.unwrap_or(Value::Null)));
                    }
                },
                Step::At(index) => element(value, *index),
                Step::Of(operand) => {
                    let index = self.operand(operand)?;
                    match index.as_i64() {
                        Some(index) => element(value, index),
                        None => {
                            // A list or an object becomes text first.
                            self.budget.value(&index)?;
                            self.property(value, &text_of(&index))?
                        }
                    }
                }
            };
            match found {
                Some(found) => value = found,
                None => return Ok(Walked::Made(Value::Null)),
            }
        }
        Ok(Walked::There(value))
    }

    /// A name from the data may be as long as a body, and is compared with many.
    fn property<'v>(&self, value: &'v Value, name: &str) -> Found<Option<&'v Value>> {
        self.budget.bytes(name.len())?;
        count(name.len());
        Ok(property(value, name))
    }

    fn size(&self, value: &Value) -> Found<Value> {
        Ok(match value {
            Value::String(text) => {
                self.budget.bytes(text.len())?;
                count(text.len());
                Value::from(text.chars().count())
            }
            Value::Array(items) => Value::from(items.len()),
            Value::Object(object) => Value::from(object.len()),
            Value::Null | Value::Bool(_) | Value::Number(_) => Value::Null,
        })
    }

    fn loop_property(&self, property: LoopProperty) -> Value {
        let Some((at, length)) = self.turns.last().copied() else { return Value::Null };
        let left = length.saturating_sub(at);
        match property {
            LoopProperty::Index => Value::from(at.saturating_add(1)),
            LoopProperty::Index0 => Value::from(at),
            LoopProperty::Rindex => Value::from(left),
            LoopProperty::Rindex0 => Value::from(left.saturating_sub(1)),
            LoopProperty::First => Value::from(at == 0),
            LoopProperty::Last => Value::from(left == 1),
            LoopProperty::Length => Value::from(length),
        }
    }

    /// Every number of a range costs a step before it is made.
    fn range(&self, first: &'a Operand, last: &'a Operand) -> Found<Datum<'a>> {
        let whole = |operand| {
            let end = self.operand(operand)?;
            end.as_i64()
                .or_else(|| short(&end)?.parse().ok())
                .ok_or("a range goes from a whole number to a whole number")
        };
        let (first, last): (i64, i64) = (whole(first)?, whole(last)?);
        if first > last {
            return Ok(Datum::Owned(Value::Array(Vec::new())));
        }
        let count = last.checked_sub(first).and_then(|it| usize::try_from(it).ok());
        let count = count.unwrap_or(usize::MAX);
        self.budget.steps(count)?;
        inner_steps::count(count);
        Ok(Datum::Owned((first..=last).map(Value::from).collect()))
    }
}

enum Walked<'v> {
    There(&'v Value),
    Made(Value),
}

fn property<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
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

/// From the end when negative.
fn element(value: &Value, index: i64) -> Option<&Value> {
    match value {
        Value::Array(items) => {
            let from_end = usize::try_from(index.unsigned_abs()).ok()?;
            match usize::try_from(index) {
                Ok(at) => items.get(at),
                Err(_) => items.get(items.len().checked_sub(from_end)?),
            }
        }
        Value::Object(object) => object.get(&index.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
