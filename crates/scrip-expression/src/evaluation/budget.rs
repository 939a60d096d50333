//! How much an evaluation may still do.
//!
//! Counted in steps and bytes, never in time: an answer must not depend on load.

use std::cell::Cell;

use serde_json::Value;

use crate::{OVER_SHARED_WORK, STEPS_MAX, Spent, WORK_BYTES_MAX, inner_steps::count};

pub(crate) type Paid = Result<(), &'static str>;

/// A step takes about as long as this many bytes.
const STEP_BYTES: usize = 64;

#[derive(Debug)]
pub(crate) struct Budget {
    steps_left: Cell<usize>,
    bytes_left: Cell<usize>,
    /// What all expressions of the request may still cost together: bytes, and steps as bytes.
    work_left: Cell<usize>,
    ran_out: Cell<bool>,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self::within(usize::MAX)
    }

    pub(crate) fn within(work_max: usize) -> Self {
        Self {
            steps_left: Cell::new(STEPS_MAX),
            bytes_left: Cell::new(WORK_BYTES_MAX),
            work_left: Cell::new(work_max),
            ran_out: Cell::new(false),
        }
    }

    fn work(&self, work: usize) -> Paid {
        let Some(left) = self.work_left.get().checked_sub(work) else {
            self.ran_out.set(true);
            return Err(OVER_SHARED_WORK);
        };
        self.work_left.set(left);
        Ok(())
    }

    pub(crate) fn steps(&self, steps: usize) -> Paid {
        let left = self.steps_left.get().checked_sub(steps);
        let left = left.ok_or("this is too much to evaluate")?;
        self.work(steps.saturating_mul(STEP_BYTES))?;
        self.steps_left.set(left);
        Ok(())
    }

    /// Pays for bytes about to be read or made. Whoever multiplies pays first and allocates then.
    pub(crate) fn bytes(&self, bytes: usize) -> Paid {
        let left = self.bytes_left.get().checked_sub(bytes);
        let left = left.ok_or("the output is too large")?;
        self.work(bytes)?;
        self.bytes_left.set(left);
        Ok(())
    }

    pub(crate) fn spent(&self) -> Spent {
        let steps = STEPS_MAX.saturating_sub(self.steps_left.get());
        let bytes = WORK_BYTES_MAX.saturating_sub(self.bytes_left.get());
        let work = bytes.saturating_add(steps.saturating_mul(STEP_BYTES));
        Spent { work, ran_out: self.ran_out.get() }
    }

    pub(crate) fn value(&self, value: &Value) -> Paid {
        self.bytes(weight(value))
    }
}

/// What a value costs to read or to copy.
///
/// Each value takes 32 bytes in memory, but a byte or two in a body; four between them let the
/// largest body pass and hold one evaluation under some 64 MiB.
#[must_use]
pub fn weight(value: &Value) -> usize {
    const EACH: usize = 4;
    count(1);
    let inner = match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(object) => {
            object.iter().map(|(name, value)| name.len().saturating_add(weight(value))).sum()
        }
    };
    EACH.saturating_add(inner)
}
