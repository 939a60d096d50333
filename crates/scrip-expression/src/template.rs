//! JSON with expressions in its strings, such as a mask.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    Expression, ExpressionCache, ExpressionError, JSON_DEPTH_MAX, Scope, is_expression,
    json_tree::JsonTree,
};

/// A compiled template.
#[derive(Debug, Clone)]
pub struct Template(JsonTree<Arc<Expression>>);

impl Template {
    /// Errors: a string is an invalid expression, or the JSON is nested too deep.
    pub fn parse(source: &Value) -> Result<Self, ExpressionError> {
        Self::compile(source, |text| Expression::parse(text).map(Arc::new))
    }

    /// Parses with expressions from a cache.
    /// Errors: as [`Self::parse`].
    pub fn parse_cached(source: &Value, cache: &ExpressionCache) -> Result<Self, ExpressionError> {
        Self::compile(source, |text| cache.parse(text))
    }

    fn compile(
        source: &Value,
        compile: impl Fn(&str) -> Result<Arc<Expression>, ExpressionError>,
    ) -> Result<Self, ExpressionError> {
        let mut leaf = |text: &str| is_expression(text).then(|| compile(text));
        JsonTree::compile(source, &mut leaf, JSON_DEPTH_MAX).map(Self).map_err(|it| it.cause)
    }

    /// Whether any of its expressions [is random](Expression::is_random).
    pub fn is_random(&self) -> bool {
        self.0.any(|it| it.is_random())
    }

    /// Whether any of its expressions [reads metadata](Expression::reads_metadata).
    pub fn reads_metadata(&self) -> bool {
        self.0.any(|it| it.reads_metadata())
    }

    /// All leaves share the scope's budget.
    /// Errors: a filter rejects its value, or a limit is exceeded.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        self.0.evaluate(&scope.budget, &|it| it.evaluate(scope)).map_err(|it| it.cause)
    }
}
