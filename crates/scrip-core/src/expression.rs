//! Expressions of tokens: compilation, evaluation, and the work budget.

pub mod compilation;
pub mod enrichment;

use scrip_expression::Scope;
use serde_json::Value;

use crate::{
    Error, FieldError,
    expression::compilation::ReplayableRandom,
    work_meter::{EvaluationAttempt, EvaluationInput, REQUEST_WORK_MAX, WorkMeter},
};

/// How the values of expressions count in limits of length and of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueCounting {
    /// By their length.
    Exact,
    /// By [`padded_value_size`](scrip_expression::padded_value_size): the caller may not read a value, so its length must not decide what fails.
    Padded,
}

const WORK_RULE: &str = "the transforms need too much work for this message";

/// The thread on which a message is parsed or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageThread {
    /// A worker of the async runtime. A step that takes long does not run there.
    Worker,
    /// A slot for long evaluations.
    Slot,
}

/// Charges work that is not an evaluation, before it is done: the bytes of a message that are parsed or
/// scanned, and the values that are looked up in it.
/// Errors: the request has used up its work.
pub fn charge_message_work(
    work: &WorkMeter,
    units: usize,
    thread: MessageThread,
) -> Result<(), Error> {
    if units > REQUEST_WORK_MAX.saturating_sub(work.spent()) {
        return Err(FieldError::new("body", WORK_RULE).into());
    }
    match thread {
        MessageThread::Worker => work.charge(units),
        MessageThread::Slot => work.charge_ahead(units),
    }
    Ok(())
}

/// Calls `evaluate` with a scope that has the host functions and the remaining work of the request.
///
/// A long evaluation is repeated outside of the async workers, so `evaluate` may be called twice.
/// Both calls create the same aliases.
/// Errors: too many long evaluations are running.
pub fn evaluate_message<T>(
    work: &WorkMeter,
    fill_random: fn(&mut [u8]),
    counting: ValueCounting,
    mut evaluate: impl FnMut(&Scope<'_>) -> T,
) -> Result<T, Error> {
    let random = ReplayableRandom::new(fill_random);
    let attempt = work.run(EvaluationInput::Known, |work_max| {
        random.rewind();
        let scope =
            Scope::new(&Value::Null, None).with_host_functions(&random).with_work_limit(work_max);
        let scope = match counting {
            ValueCounting::Exact => scope,
            ValueCounting::Padded => scope.with_padded_values(),
        };
        let result = evaluate(&scope);
        EvaluationAttempt { result, spent: scope.spent_work() }
    });
    work.check()?;
    Ok(attempt.result)
}

/// Like [`evaluate_message`], for values that the caller may not read.
///
/// `rehearse` evaluates the same expressions with stand-ins for these values. It alone decides whether
/// the work is enough, and only its work is charged. Then `evaluate` runs without a limit of the
/// request.
/// Errors: too many long evaluations are running.
pub fn evaluate_rehearsed<T, E>(
    work: &WorkMeter,
    fill_random: fn(&mut [u8]),
    mut rehearse: impl FnMut(&Scope<'_>) -> Result<(), E>,
    mut evaluate: impl FnMut(&Scope<'_>) -> Result<T, E>,
) -> Result<Result<T, E>, Error> {
    let random = ReplayableRandom::new(fill_random);
    let attempt = work.run(EvaluationInput::Known, |work_max| {
        random.rewind();
        let new_scope = || Scope::new(&Value::Null, None).with_host_functions(&random);
        let scope = new_scope().with_work_limit(work_max);
        let rehearsed = rehearse(&scope);
        random.rewind();
        let result = rehearsed.and_then(|()| evaluate(&new_scope()));
        EvaluationAttempt { result, spent: scope.spent_work() }
    });
    work.check()?;
    Ok(attempt.result)
}

#[cfg(test)]
mod tests {
    use scrip_expression::{ExpressionPlace, MessageInputs, MessageText, NoReferences};
    use serde_json::json;

    use super::*;

    fn evaluate(work: &WorkMeter, source: &str, configuration: &Value) -> Result<Value, Error> {
        let text = MessageText::parse(source, ExpressionPlace::Body).unwrap();
        let inputs = MessageInputs {
            references: &NoReferences,
            configuration,
            identifiers: &Value::Null,
            objects: &Value::Null,
        };
        let evaluate = |scope: &Scope<'_>| text.evaluate(&inputs, scope);
        let counting = ValueCounting::Exact;
        Ok(evaluate_message(work, scrip_seal::fill_random, counting, evaluate)?.unwrap_or_default())
    }

    #[test]
    fn messages_share_the_evaluation_budget_of_their_request() {
        let work = WorkMeter::default();
        let configuration = json!({"a": "b".repeat(1_000_000)});
        let mut evaluations = 0;
        while !evaluate(&work, "{{ config: a }}", &configuration).unwrap().is_null() {
            evaluations += 1;
        }
        assert!((8..=REQUEST_WORK_MAX / 1_000_000).contains(&evaluations), "{evaluations}");
    }

    #[test]
    fn rejected_long_evaluation_of_a_message_is_an_error() {
        let work = WorkMeter::new(None, |_, _| false);
        let configuration = json!({"a": "b".repeat(2_000_000)});
        assert!(matches!(
            evaluate(&work, "{{ config: a }}", &configuration),
            Err(Error::Unavailable(_))
        ));
    }

    #[test]
    fn hmac_and_aliases_are_available_in_messages() {
        let work = WorkMeter::default();
        let configuration = json!({"a": "text"});
        let source = "{{ config: a | hmac: 'sha-256', 'key' | to_base16 }}";
        assert_eq!(evaluate(&work, source, &configuration).unwrap().as_str().unwrap().len(), 64);
        let alias = "{{ config: a | alias_preserve_length }}";
        assert_ne!(evaluate(&work, alias, &configuration).unwrap(), configuration["a"]);
    }
}
