//! The values that the expressions of a message can name, and the evaluation of an expression.

use serde_json::Value;

use super::expression::{MessageExpression, MessageObject, MessageSource};
use crate::{
    ExpressionError, Reference, Scope,
    evaluation::evaluate::Evaluator,
    inner_steps::count,
    syntax::ast::{Operand, Step},
    value::datum::Datum,
};

/// The problem of an expression with a reference that cannot be resolved.
pub const UNKNOWN_REFERENCE: &str = "no token has this id";

/// Finds the tokens and token intents that expressions name.
pub trait ResolveReference {
    fn resolve(&self, reference: &Reference) -> Option<&Value>;
}

/// For messages without references.
#[derive(Debug, Clone, Copy)]
pub struct NoReferences;

impl ResolveReference for NoReferences {
    fn resolve(&self, _: &Reference) -> Option<&Value> {
        None
    }
}

/// The values that expressions can name.
#[derive(Clone, Copy)]
pub struct MessageInputs<'v> {
    pub references: &'v dyn ResolveReference,
    /// An object of texts.
    pub configuration: &'v Value,
    /// An object: the tokens that earlier transforms created, by identifier.
    pub identifiers: &'v Value,
    /// An object: `proxy` and `config` for headers; `req`, `res` and `config` for transforms.
    pub objects: &'v Value,
}

impl std::fmt::Debug for MessageInputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageInputs")
    }
}

/// The value of an expression. An owned value may be a secret: wipe it.
pub enum EvaluatedMessage<'v> {
    Borrowed(&'v Value),
    Owned(Value),
}

impl std::fmt::Debug for EvaluatedMessage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EvaluatedMessage")
    }
}

impl MessageExpression {
    /// Errors: the source does not exist, a filter rejects its value, or a limit is exceeded.
    pub fn evaluate<'v>(
        &'v self,
        inputs: &MessageInputs<'v>,
        scope: &'v Scope<'_>,
    ) -> Result<EvaluatedMessage<'v>, ExpressionError> {
        let fail = |problem| ExpressionError { position: self.position, problem };
        let value = self.evaluate_source(inputs, scope).map_err(fail)?;
        let evaluator = Evaluator::new(scope, inputs.objects, 0);
        let value = evaluator.apply_calls(value, &self.calls).map_err(fail)?;
        scope.budget.charge_value(&value).map_err(fail)?;
        if let Datum::Borrowed(value) = value {
            return Ok(EvaluatedMessage::Borrowed(value));
        }
        Ok(EvaluatedMessage::Owned(value.into_value()))
    }

    fn evaluate_source<'v>(
        &'v self,
        inputs: &MessageInputs<'v>,
        scope: &'v Scope<'_>,
    ) -> Result<Datum<'v>, &'static str> {
        scope.budget.charge_steps(1)?;
        count(1);
        let property = |object: &'v Value, name: &str| {
            scope.budget.charge_bytes(name.len())?;
            count(name.len());
            Ok::<_, &'static str>(object.get(name))
        };
        let value = match &self.source {
            MessageSource::Reference(reference) => {
                inputs.references.resolve(reference).ok_or(UNKNOWN_REFERENCE)?
            }
            MessageSource::Configuration(name) => property(inputs.configuration, name)?
                .ok_or("the configuration of the proxy has no value of this name")?,
            MessageSource::Identifier(name) => property(inputs.identifiers, name)?
                .ok_or("no earlier transform has this identifier")?,
            MessageSource::Object(MessageObject(operand)) => {
                check_object_exists(operand, inputs.objects)?;
                return Evaluator::new(scope, inputs.objects, 0).evaluate_operand(operand);
            }
        };
        Ok(Datum::Borrowed(value))
    }
}

/// A missing object is an error, unlike a missing property: `encrypted` must not become null when
/// the request has no encrypted data.
fn check_object_exists(operand: &Operand, objects: &Value) -> Result<(), &'static str> {
    let Operand::Path(path) = operand else { return Ok(()) };
    match path.steps.first() {
        Some(Step::Name(name)) if objects.get(name).is_none() => {
            Err("this object is not available here")
        }
        _ => Ok(()),
    }
}

impl EvaluatedMessage<'_> {
    pub fn value(&self) -> &Value {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }

    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Borrowed(value) => value.clone(),
            Self::Owned(value) => value,
        }
    }
}
