//! JSON with expressions in its strings, compiled and evaluated leaf by leaf.

use serde_json::{Map, Value};

use crate::{
    ExpressionError,
    budget::Budget,
    inner_steps::{count, count_value},
};

/// A string of the JSON that is invalid, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafError {
    /// The property names and indexes that lead to the string, outermost first.
    pub path: Vec<PathStep>,
    pub cause: ExpressionError,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    Name(String),
    Index(usize),
}

impl From<ExpressionError> for LeafError {
    fn from(cause: ExpressionError) -> Self {
        Self { path: Vec::new(), cause }
    }
}

impl LeafError {
    fn inside(mut self, step: PathStep) -> Self {
        self.path.insert(0, step);
        self
    }
}

/// JSON in which each string that is not a literal is a compiled `L`.
#[derive(Debug, Clone)]
pub(crate) enum JsonTree<L> {
    Literal(Value),
    Leaf(L),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl<L> JsonTree<L> {
    /// `compile` returns `None` for a string that is a literal.
    pub(crate) fn compile(
        source: &Value,
        compile: &mut impl FnMut(&str) -> Option<Result<L, ExpressionError>>,
        depth_left: usize,
    ) -> Result<Self, LeafError> {
        let inner = depth_left.checked_sub(1).ok_or(root_error("the JSON is nested too deep"));
        match source {
            Value::String(text) => match compile(text) {
                Some(leaf) => Ok(Self::Leaf(leaf?)),
                None => Ok(Self::Literal(source.clone())),
            },
            Value::Array(items) => {
                let inner = inner?;
                let item = |(at, it)| {
                    let item = Self::compile(it, compile, inner);
                    item.map_err(|error| error.inside(PathStep::Index(at)))
                };
                Ok(Self::Array(
                    items.iter().enumerate().map(item).collect::<Result<_, LeafError>>()?,
                ))
            }
            Value::Object(object) => {
                let inner = inner?;
                let property = |(name, value): (&String, _)| {
                    let within = |error: LeafError| error.inside(PathStep::Name(name.clone()));
                    let value = Self::compile(value, compile, inner).map_err(within)?;
                    Ok((name.clone(), value))
                };
                Ok(Self::Object(object.iter().map(property).collect::<Result<_, LeafError>>()?))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Self::Literal(source.clone())),
        }
    }

    pub(crate) fn any(&self, predicate: impl Fn(&L) -> bool + Copy) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Leaf(leaf) => predicate(leaf),
            Self::Array(items) => items.iter().any(|it| it.any(predicate)),
            Self::Object(properties) => properties.iter().any(|(_, it)| it.any(predicate)),
        }
    }

    /// Adds all leaves, each with its path.
    pub(crate) fn collect_leaves<'t>(
        &'t self,
        path: &mut Vec<PathStep>,
        leaves: &mut Vec<(Vec<PathStep>, &'t L)>,
    ) {
        let mut enter = |step: PathStep, inner: &'t Self| {
            path.push(step);
            inner.collect_leaves(path, leaves);
            path.pop();
        };
        match self {
            Self::Literal(_) => (),
            Self::Leaf(leaf) => leaves.push((path.clone(), leaf)),
            Self::Array(items) => {
                let items = items.iter().enumerate();
                items.for_each(|(index, it)| enter(PathStep::Index(index), it));
            }
            Self::Object(properties) => {
                let properties = properties.iter();
                properties.for_each(|(name, it)| enter(PathStep::Name(name.clone()), it));
            }
        }
    }

    /// All leaves share the budget.
    pub(crate) fn evaluate<'t>(
        &'t self,
        budget: &Budget,
        evaluate: &impl Fn(&'t L) -> Result<Value, ExpressionError>,
    ) -> Result<Value, LeafError> {
        match self {
            Self::Literal(value) => {
                budget.charge_value(value).map_err(root_error)?;
                count_value(value);
                Ok(value.clone())
            }
            Self::Leaf(leaf) => Ok(evaluate(leaf)?),
            Self::Array(items) => {
                let item = |(at, it): (_, &'t Self)| {
                    let item = it.evaluate(budget, evaluate);
                    item.map_err(|error| error.inside(PathStep::Index(at)))
                };
                Ok(Value::Array(
                    items.iter().enumerate().map(item).collect::<Result<_, LeafError>>()?,
                ))
            }
            Self::Object(properties) => {
                let mut object = Map::new();
                for (name, value) in properties {
                    budget.charge_bytes(name.len()).map_err(root_error)?;
                    count(name.len());
                    let within = |error: LeafError| error.inside(PathStep::Name(name.clone()));
                    let value = value.evaluate(budget, evaluate).map_err(within)?;
                    object.insert(name.clone(), value);
                }
                Ok(Value::Object(object))
            }
        }
    }
}

/// An error about a whole string.
pub(crate) fn root_error(problem: &'static str) -> ExpressionError {
    ExpressionError { position: 1, problem }
}
