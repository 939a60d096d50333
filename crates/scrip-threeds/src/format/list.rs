//! Lists and flags.

use serde_json::Value;

use crate::format::{ElementContext, ElementFormat};

/// Between one and `MAX` values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> List<T, MAX> {
    /// Returns `None` for an empty list or too many items.
    pub fn new(items: Vec<T>) -> Option<Self> {
        (1..=MAX).contains(&items.len()).then_some(Self(items))
    }

    pub fn items(&self) -> &[T] {
        &self.0
    }
}

impl<T: ElementFormat, const MAX: usize> ElementFormat for List<T, MAX> {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        let items = value.as_array().filter(|it| (1..=MAX).contains(&it.len()));
        let items = context.expect(items)?;
        // Collected in two steps, so that the faults of all items are recorded.
        let read: Vec<_> = items.iter().map(|it| T::read(it, context)).collect();
        read.into_iter().collect::<Option<_>>().map(Self)
    }

    fn write(&self) -> Value {
        Value::Array(self.0.iter().map(ElementFormat::write).collect())
    }
}

impl ElementFormat for bool {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        context.expect(value.as_bool())
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }
}

/// An element that is either true or absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrueFlag;

impl ElementFormat for TrueFlag {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        context.expect((*value == Value::Bool(true)).then_some(Self))
    }

    fn write(&self) -> Value {
        Value::Bool(true)
    }
}
