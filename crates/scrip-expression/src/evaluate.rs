//! A compiled expression against the values it may see.

use std::{borrow::Cow, cell::Cell};

use serde_json::Value;

use crate::{
    ExpressionError, OUTPUT_BYTES_MAX, STEPS_MAX, WORK_BYTES_MAX,
    filter::text_of,
    parse::{Expression, Operand, Output, Part},
};

/// What an expression can name, and how much it may do. What is not here cannot be reached.
///
/// The bounds are counted in steps and bytes, never in time: an answer must not depend on load. A
/// template shares them among its leaves.
pub struct Scope<'a> {
    data: &'a Value,
    metadata: Option<&'a Value>,
    steps_left: Cell<usize>,
    bytes_left: Cell<usize>,
}

impl<'a> Scope<'a> {
    #[must_use]
    pub fn new(data: &'a Value, metadata: Option<&'a Value>) -> Self {
        let (steps_left, bytes_left) = (Cell::new(STEPS_MAX), Cell::new(WORK_BYTES_MAX));
        Self { data, metadata, steps_left, bytes_left }
    }

    /// Pays for one step that made `bytes`.
    pub(crate) fn spend(&self, bytes: usize) -> Result<(), &'static str> {
        let steps = self.steps_left.get().checked_sub(1).ok_or("this is too much to evaluate")?;
        self.steps_left.set(steps);
        let bytes = self.bytes_left.get().checked_sub(bytes).ok_or("the output is too large")?;
        self.bytes_left.set(bytes);
        Ok(())
    }
}

/// About what a value takes in memory.
fn weight(value: &Value) -> usize {
    const EACH: usize = 32;
    let inner = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(object) => {
            object.iter().map(|(name, value)| name.len().saturating_add(weight(value))).sum()
        }
    };
    EACH.saturating_add(inner)
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}

impl Expression {
    /// A lone `{{ }}` keeps the type of its value; anything else is text.
    ///
    /// # Errors
    /// A filter cannot take its value, or the output is too large.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        if let [Part::Output(output)] = self.parts.as_slice() {
            let value = output.evaluate(scope)?;
            let fail = |problem| ExpressionError { position: output.position, problem };
            if let Cow::Borrowed(value) = &value {
                scope.spend(weight(value)).map_err(fail)?;
            }
            return Ok(value.into_owned());
        }
        let mut rendered = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => rendered.push_str(text),
                Part::Output(output) => {
                    let value = output.evaluate(scope)?;
                    let fail = |problem| ExpressionError { position: output.position, problem };
                    scope.spend(weight(&value)).map_err(fail)?;
                    rendered.push_str(&text_of(&value));
                }
            }
            if rendered.len() > OUTPUT_BYTES_MAX {
                return Err(ExpressionError { position: 1, problem: "the output is too large" });
            }
        }
        Ok(Value::String(rendered))
    }
}

impl Output {
    fn evaluate<'a>(&'a self, scope: &Scope<'a>) -> Result<Cow<'a, Value>, ExpressionError> {
        let mut value = match &self.operand {
            Operand::Literal(value) => Cow::Borrowed(value),
            Operand::Path(path) => Cow::Borrowed(resolve(path, scope)),
        };
        for call in &self.filters {
            let result = (call.filter.run)(&value, &call.arguments);
            let fail = |problem| ExpressionError { position: self.position, problem };
            let result = result.map_err(fail)?;
            scope.spend(weight(&result)).map_err(fail)?;
            value = Cow::Owned(result);
        }
        Ok(value)
    }
}

const NULL: &Value = &Value::Null;

/// A missing property is null.
fn resolve<'a>(path: &[String], scope: &Scope<'a>) -> &'a Value {
    let Some((root, properties)) = path.split_first() else { return NULL };
    let root = match root.as_str() {
        "data" => scope.data,
        "metadata" => scope.metadata.unwrap_or(NULL),
        _ => NULL,
    };
    properties.iter().fold(root, |value, name| match value {
        Value::Object(object) => object.get(name).unwrap_or(NULL),
        Value::Array(items) => {
            name.parse().ok().and_then(|at: usize| items.get(at)).unwrap_or(NULL)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => NULL,
    })
}
