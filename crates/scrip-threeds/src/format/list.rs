//! Lists and flags.

use serde_json::Value;

use crate::{
    fault::ErrorCode,
    format::{Format, Place},
};

/// Between one and `MAX` values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> List<T, MAX> {
    /// None if there are none, or too many.
    #[must_use]
    pub fn new(items: Vec<T>) -> Option<Self> {
        (1..=MAX).contains(&items.len()).then_some(Self(items))
    }

    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.0
    }
}

impl<T: Format, const MAX: usize> Format for List<T, MAX> {
    fn read(value: &Value, place: &mut Place<'_>) -> Option<Self> {
        let items = value.as_array().filter(|it| (1..=MAX).contains(&it.len()));
        let Some(items) = items else {
            place.fault(ErrorCode::FormatInvalid);
            return None;
        };
        // Not collected at once: the faults of all items are to be told.
        let read: Vec<_> = items.iter().map(|it| T::read(it, place)).collect();
        read.into_iter().collect::<Option<_>>().map(Self)
    }

    fn write(&self) -> Value {
        Value::Array(self.0.iter().map(Format::write).collect())
    }

    #[cfg(test)]
    fn samples() -> Vec<Value> {
        let sample = T::samples().swap_remove(0);
        let most = vec![sample.clone(); MAX.min(200)];
        vec![Value::Array(vec![sample]), Value::Array(most)]
    }

    #[cfg(test)]
    fn refused() -> Vec<Value> {
        let sample = T::samples().swap_remove(0);
        // The longest lists are too long to be built for every test; `bounds.rs` has theirs.
        let many = if MAX <= 200 { vec![sample.clone(); MAX + 1] } else { Vec::new() };
        let wrong = T::refused().into_iter().map(|it| Value::Array(vec![sample.clone(), it]));
        wrong.chain([Value::Array(many), Value::Array(Vec::new()), "01".into()]).collect()
    }
}

impl Format for bool {
    fn read(value: &Value, place: &mut Place<'_>) -> Option<Self> {
        let read = value.as_bool();
        if read.is_none() {
            place.fault(ErrorCode::FormatInvalid);
        }
        read
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }

    #[cfg(test)]
    fn samples() -> Vec<Value> {
        vec![true.into(), false.into()]
    }

    #[cfg(test)]
    fn refused() -> Vec<Value> {
        vec!["true".into(), 1.into(), Value::Null]
    }
}

/// An element that is there, and true, or not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct True;

impl Format for True {
    fn read(value: &Value, place: &mut Place<'_>) -> Option<Self> {
        if *value == Value::Bool(true) {
            return Some(Self);
        }
        place.fault(ErrorCode::FormatInvalid);
        None
    }

    fn write(&self) -> Value {
        Value::Bool(true)
    }

    #[cfg(test)]
    fn samples() -> Vec<Value> {
        vec![true.into()]
    }

    #[cfg(test)]
    fn refused() -> Vec<Value> {
        vec![false.into(), "true".into(), Value::Null]
    }
}
