//! A compiled expression against the values it may see.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    ExpressionError, OUTPUT_BYTES_MAX,
    filter::text_of,
    parse::{Expression, Operand, Output, Part},
};

/// What an expression can name. What is not here cannot be reached.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub data: &'a Value,
    pub metadata: Option<&'a Value>,
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
    pub fn evaluate(&self, scope: Scope<'_>) -> Result<Value, ExpressionError> {
        if let [Part::Output(output)] = self.parts.as_slice() {
            return Ok(output.evaluate(scope)?.into_owned());
        }
        let mut rendered = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => rendered.push_str(text),
                Part::Output(output) => rendered.push_str(&text_of(&*output.evaluate(scope)?)),
            }
            if rendered.len() > OUTPUT_BYTES_MAX {
                return Err(ExpressionError { position: 1, problem: "the output is too large" });
            }
        }
        Ok(Value::String(rendered))
    }
}

impl Output {
    fn evaluate<'a>(&'a self, scope: Scope<'a>) -> Result<Cow<'a, Value>, ExpressionError> {
        let mut value = match &self.operand {
            Operand::Literal(value) => Cow::Borrowed(value),
            Operand::Path(path) => Cow::Borrowed(resolve(path, scope)),
        };
        for call in &self.filters {
            let result = (call.filter.run)(&value, &call.arguments);
            let fail = |problem| ExpressionError { position: self.position, problem };
            value = Cow::Owned(result.map_err(fail)?);
        }
        Ok(value)
    }
}

const NULL: &Value = &Value::Null;

/// A missing property is null.
fn resolve<'a>(path: &[String], scope: Scope<'a>) -> &'a Value {
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
