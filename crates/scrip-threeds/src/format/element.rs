//! The reading and writing of a data element at its place in a message.

use serde_json::Value;

use crate::{
    code::EmvCode,
    fault::{ErrorCode, FaultList},
    format::transaction_context::TransactionContext,
};

/// The position of a value in a message, and the faults found so far.
#[derive(Debug)]
pub struct ElementContext<'a> {
    pub(crate) path: String,
    pub(crate) transaction: &'a TransactionContext,
    pub(crate) faults: &'a mut FaultList,
}

impl ElementContext<'_> {
    pub(crate) fn add_fault(&mut self, code: ErrorCode) {
        self.faults.add(code, self.path.clone());
    }

    /// Records a format fault if `parsed` is `None`.
    pub(crate) fn expect<T>(&mut self, parsed: Option<T>) -> Option<T> {
        if parsed.is_none() {
            self.add_fault(ErrorCode::FormatInvalid);
        }
        parsed
    }

    /// The context of an element of this object.
    pub(crate) fn child(&mut self, name: &str) -> ElementContext<'_> {
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{name}", self.path);
        ElementContext { path, transaction: self.transaction, faults: self.faults }
    }
}

/// Reads and writes a data element.
pub trait ElementFormat: Sized {
    /// Returns `None` for an invalid value and records the fault.
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self>;

    fn write(&self) -> Value;
}

/// Messages contain codes as strings.
impl<C: EmvCode> ElementFormat for C {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        context.expect(value.as_str().and_then(C::parse_code))
    }

    fn write(&self) -> Value {
        Value::String(self.to_code())
    }
}
