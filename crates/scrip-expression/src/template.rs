//! JSON whose texts may be expressions, such as a mask: evaluated leaf by leaf.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    Expression, ExpressionCache, ExpressionError, JSON_DEPTH_MAX, Scope,
    inner_steps::{count, count_value},
    is_expression,
};

/// A compiled template.
#[derive(Debug, Clone)]
pub enum Template {
    Literal(Value),
    Expression(Arc<Expression>),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

type Compile<'c> = &'c dyn Fn(&str) -> Result<Arc<Expression>, ExpressionError>;

impl Template {
    /// # Errors
    /// A text is an expression that cannot be used, or the JSON is too deep.
    pub fn parse(source: &Value) -> Result<Self, ExpressionError> {
        Self::compile(source, &|text| Expression::parse(text).map(Arc::new), JSON_DEPTH_MAX)
    }

    /// The same with expressions from a cache.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_cached(source: &Value, cache: &ExpressionCache) -> Result<Self, ExpressionError> {
        Self::compile(source, &|text| cache.parse(text), JSON_DEPTH_MAX)
    }

    fn compile(
        source: &Value,
        compile: Compile<'_>,
        depth_left: usize,
    ) -> Result<Self, ExpressionError> {
        let problem = "the JSON is nested too deep";
        let inner = depth_left.checked_sub(1).ok_or(ExpressionError { position: 1, problem });
        match source {
            Value::String(text) if is_expression(text) => Ok(Self::Expression(compile(text)?)),
            Value::Array(items) => {
                let inner = inner?;
                let items = items.iter().map(|it| Self::compile(it, compile, inner));
                Ok(Self::Array(items.collect::<Result<_, _>>()?))
            }
            Value::Object(object) => {
                let inner = inner?;
                let property = |(name, value): (&String, _)| {
                    Ok((name.clone(), Self::compile(value, compile, inner)?))
                };
                Ok(Self::Object(object.iter().map(property).collect::<Result<_, _>>()?))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Ok(Self::Literal(source.clone()))
            }
        }
    }

    /// Whether any of its expressions [is random](Expression::is_random).
    #[must_use]
    pub fn is_random(&self) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Expression(expression) => expression.is_random(),
            Self::Array(items) => items.iter().any(Self::is_random),
            Self::Object(properties) => properties.iter().any(|(_, it)| it.is_random()),
        }
    }

    /// All leaves share the scope's budget.
    ///
    /// # Errors
    /// A filter cannot take its value, or a bound is passed.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        match self {
            Self::Literal(value) => {
                scope.budget.value(value).map_err(over)?;
                count_value(value);
                Ok(value.clone())
            }
            Self::Expression(expression) => expression.evaluate(scope),
            Self::Array(items) => {
                let items = items.iter().map(|it| it.evaluate(scope));
                Ok(Value::Array(items.collect::<Result<_, _>>()?))
            }
            Self::Object(properties) => {
                let mut object = Map::new();
                for (name, value) in properties {
                    scope.budget.bytes(name.len()).map_err(over)?;
                    count(name.len());
                    object.insert(name.clone(), value.evaluate(scope)?);
                }
                Ok(Value::Object(object))
            }
        }
    }
}

fn over(problem: &'static str) -> ExpressionError {
    ExpressionError { position: 1, problem }
}
