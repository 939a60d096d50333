//! The budget of an evaluation.
//!
//! The budget counts steps and bytes, never time: a result must not depend on the load.

use std::cell::Cell;

use serde_json::Value;

use crate::{
    inner_steps::count,
    limits::{STEPS_MAX, WORK_BYTES_MAX},
};

/// The problem of an evaluation that reached the limit of [`Scope::with_work_limit`](crate::Scope::with_work_limit).
pub const SHARED_WORK_EXCEEDED: &str =
    "the expressions of this request exceed the shared evaluation limit";

pub(crate) type ChargeResult = Result<(), &'static str>;

/// A step takes about as long as reading this many bytes.
const STEP_BYTES: usize = 64;

/// The charged work of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpentWork {
    /// Bytes that were read or created; a step counts as 64 bytes.
    pub work: usize,
    /// Whether the evaluation reached the limit of [`Scope::with_work_limit`](crate::Scope::with_work_limit).
    pub is_exhausted: bool,
}

#[derive(Debug)]
pub(crate) struct Budget {
    steps_left: Cell<usize>,
    bytes_left: Cell<usize>,
    /// The remaining work that all expressions of the request share: bytes, and steps as bytes.
    work_left: Cell<usize>,
    is_exhausted: Cell<bool>,
    /// Whether values cost their padded size.
    pub(crate) pads_values: bool,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self::with_work_limit(usize::MAX)
    }

    pub(crate) fn with_work_limit(work_max: usize) -> Self {
        Self {
            steps_left: Cell::new(STEPS_MAX),
            bytes_left: Cell::new(WORK_BYTES_MAX),
            work_left: Cell::new(work_max),
            is_exhausted: Cell::new(false),
            pads_values: false,
        }
    }

    fn charge_work(&self, work: usize) -> ChargeResult {
        let Some(work_left) = self.work_left.get().checked_sub(work) else {
            self.is_exhausted.set(true);
            return Err(SHARED_WORK_EXCEEDED);
        };
        self.work_left.set(work_left);
        Ok(())
    }

    pub(crate) fn charge_steps(&self, steps: usize) -> ChargeResult {
        let steps_left = self.steps_left.get().checked_sub(steps);
        let steps_left = steps_left.ok_or("the expression exceeds the evaluation limit")?;
        self.charge_work(steps.saturating_mul(STEP_BYTES))?;
        self.steps_left.set(steps_left);
        Ok(())
    }

    /// Charges bytes that will be read or created. Amplifying filters charge before they allocate.
    pub(crate) fn charge_bytes(&self, bytes: usize) -> ChargeResult {
        let bytes_left = self.bytes_left.get().checked_sub(bytes);
        let bytes_left = bytes_left.ok_or("the output is too large")?;
        self.charge_work(bytes)?;
        self.bytes_left.set(bytes_left);
        Ok(())
    }

    pub(crate) fn spent_work(&self) -> SpentWork {
        let steps = STEPS_MAX.saturating_sub(self.steps_left.get());
        let bytes = WORK_BYTES_MAX.saturating_sub(self.bytes_left.get());
        let work = bytes.saturating_add(steps.saturating_mul(STEP_BYTES));
        SpentWork { work, is_exhausted: self.is_exhausted.get() }
    }

    pub(crate) fn charge_value(&self, value: &Value) -> ChargeResult {
        self.charge_bytes(self.cost_of(value))
    }

    /// The cost of reading or copying a value.
    pub(crate) fn cost_of(&self, value: &Value) -> usize {
        if self.pads_values { padded_value_size(value) } else { value_cost(value) }
    }
}

/// The smallest size of a text, number or name that is padded.
const PADDED_LEAF_MIN: usize = 256;
/// The smallest size of a padded value: of four attributes, such as those of a card.
const PADDED_VALUE_MIN: usize = 1024;

/// The size by which a text counts if its length must not decide what fails: the next power of two.
/// All card numbers, account numbers and keys of usual length have the same size.
pub fn padded_size(bytes: usize) -> usize {
    bytes.max(PADDED_LEAF_MIN).checked_next_power_of_two().unwrap_or(usize::MAX)
}

/// The size by which a value counts if its length must not decide what fails.
///
/// It is the sum of the value's texts, numbers and names, each padded on its own. A caller can choose a
/// part of a value, and a sum that is padded as a whole would tell the length of the other part. All cards have the same size, with or without a CVC, and so has each attribute.
pub fn padded_value_size(value: &Value) -> usize {
    padded_member_size(0, value).max(PADDED_VALUE_MIN)
}

fn padded_member_size(name_bytes: usize, value: &Value) -> usize {
    count(1);
    let sum = |sum: usize, it: usize| sum.saturating_add(it);
    let inner = match value {
        Value::Null | Value::Bool(_) => return padded_size(name_bytes),
        Value::Number(number) => {
            return padded_size(name_bytes.saturating_add(number.as_str().len()));
        }
        Value::String(text) => return padded_size(name_bytes.saturating_add(text.len())),
        Value::Array(items) => items.iter().map(|it| padded_member_size(0, it)).fold(0, sum),
        Value::Object(object) => {
            let members = object.iter();
            members.map(|(name, value)| padded_member_size(name.len(), value)).fold(0, sum)
        }
    };
    let long_name = padded_size(name_bytes).saturating_sub(PADDED_LEAF_MIN);
    inner.max(PADDED_VALUE_MIN).saturating_add(long_name)
}

/// The cost of reading or copying a value.
///
/// Each value takes 32 bytes in memory, but only one or two bytes in a body. Four bytes per value
/// accept the largest body and limit one evaluation to about 64 MiB.
pub fn value_cost(value: &Value) -> usize {
    const VALUE_OVERHEAD: usize = 4;
    count(1);
    let inner = match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_cost).sum(),
        Value::Object(object) => {
            object.iter().map(|(name, value)| name.len().saturating_add(value_cost(value))).sum()
        }
    };
    VALUE_OVERHEAD.saturating_add(inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn padded_value_is_the_sum_of_its_padded_parts() {
        let card =
            json!({"number": "4242424242424242", "expiration_month": 1, "expiration_year": 2030});
        let mut with_cvc = card.clone();
        with_cvc["cvc"] = json!("123");
        for value in [json!(null), json!("a"), json!("a".repeat(255)), json!({}), card, with_cvc] {
            assert_eq!(padded_value_size(&value), PADDED_VALUE_MIN, "{value}");
        }
        let joined = |own: usize, hidden: usize| {
            padded_value_size(&json!({
                "m": {"type": "token", "data": "y".repeat(own)},
                "v": {"type": "token", "data": "h".repeat(hidden)},
            }))
        };
        for own in 0..2000 {
            assert_eq!(joined(own, 1), joined(own, 200), "{own}");
        }
        assert_eq!(padded_value_size(&json!("a".repeat(1025))), 2048);
        assert_eq!(padded_value_size(&json!(["a", "b", "c", "d", "e"])), 5 * PADDED_LEAF_MIN);
    }
}
