//! Counts inner-loop steps: characters visited, items compared, bytes copied.
//!
//! Tests and fuzz targets compare the count with the charged work. In other builds these calls are
//! empty.

#[cfg(any(test, fuzzing))]
use std::cell::Cell;

#[cfg(any(test, fuzzing))]
use serde_json::Value;

#[cfg(any(test, fuzzing))]
thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Counts steps just before or after they are done.
#[cfg(any(test, fuzzing))]
pub(crate) fn count(steps: usize) {
    COUNT.with(|it| it.set(it.get().saturating_add(steps)));
}

#[cfg(not(any(test, fuzzing)))]
#[inline(always)]
pub(crate) const fn count(_: usize) {}

/// Counts a value that is read or copied completely.
#[cfg(any(test, fuzzing))]
pub(crate) fn count_value(value: &Value) {
    let inner = match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(items) => return items.iter().for_each(count_value),
        Value::Object(object) => {
            object.values().for_each(count_value);
            object.keys().map(String::len).sum()
        }
    };
    count(inner.saturating_add(1));
}

#[cfg(not(any(test, fuzzing)))]
#[inline(always)]
pub(crate) const fn count_value(_: &serde_json::Value) {}

/// The steps of this thread since the last call.
#[cfg(any(test, fuzzing))]
pub fn take() -> usize {
    COUNT.with(Cell::take)
}
