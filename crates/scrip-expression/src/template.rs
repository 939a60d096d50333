//! JSON whose texts may be expressions, such as a mask: evaluated leaf by leaf.

use serde_json::{Map, Value};

use crate::{Expression, ExpressionError, Scope, is_expression};

/// A compiled template.
#[derive(Debug, Clone)]
pub enum Template {
    Literal(Value),
    Expression(Expression),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Template {
    /// # Errors
    /// A text is an expression that cannot be used.
    pub fn parse(source: &Value) -> Result<Self, ExpressionError> {
        match source {
            Value::String(text) if is_expression(text) => {
                Ok(Self::Expression(Expression::parse(text)?))
            }
            Value::Array(items) => {
                Ok(Self::Array(items.iter().map(Self::parse).collect::<Result<_, _>>()?))
            }
            Value::Object(object) => {
                let parse = |(name, value): (&String, _)| Ok((name.clone(), Self::parse(value)?));
                Ok(Self::Object(object.iter().map(parse).collect::<Result<_, _>>()?))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Ok(Self::Literal(source.clone()))
            }
        }
    }

    /// # Errors
    /// A filter cannot take its value, or an output is too large.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Expression(expression) => expression.evaluate(scope),
            Self::Array(items) => {
                let items = items.iter().map(|it| it.evaluate(scope));
                Ok(Value::Array(items.collect::<Result<_, _>>()?))
            }
            Self::Object(properties) => {
                let mut object = Map::new();
                for (name, value) in properties {
                    object.insert(name.clone(), value.evaluate(scope)?);
                }
                Ok(Value::Object(object))
            }
        }
    }
}
