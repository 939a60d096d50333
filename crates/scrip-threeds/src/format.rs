//! The formats of EMV's data elements. A value that has a format's type has passed its check.

mod amount;
mod date;
mod list;
mod network;
mod object;
mod text;
mod version;

#[cfg(test)]
pub(crate) mod tests;

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use zeroize::Zeroize;

pub use amount::*;
pub use date::*;
pub use list::*;
pub use network::*;
pub use object::*;
pub use text::*;
pub use version::*;

use crate::{
    code::EmvCode,
    fault::{ErrorCode, FaultList},
    message::TransactionContext,
};

/// Where a value stands in a message, and what was found wrong so far.
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

    /// What was read, or a fault when it does not have the format.
    pub(crate) fn expect<T>(&mut self, parsed: Option<T>) -> Option<T> {
        if parsed.is_none() {
            self.add_fault(ErrorCode::FormatInvalid);
        }
        parsed
    }

    /// The place of an element of this object.
    pub(crate) fn child(&mut self, name: &str) -> ElementContext<'_> {
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{name}", self.path);
        ElementContext { path, transaction: self.transaction, faults: self.faults }
    }
}

/// A data element, read and written.
pub trait ElementFormat: Sized {
    /// None if anything is wrong, which is then noted at the place.
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self>;

    fn write(&self) -> Value;
}

/// In messages a code stands for itself.
impl<C: EmvCode> ElementFormat for C {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        context.expect(value.as_str().and_then(C::parse_code))
    }

    fn write(&self) -> Value {
        Value::String(self.to_code())
    }
}

/// A rule about a text.
pub trait FormatRule {
    fn check(text: &str) -> Result<(), ErrorCode>;
}

/// A text that keeps the rule `R`. It is not printed and wiped when dropped: most of them tell
/// something of a person.
pub struct CheckedText<R>(String, PhantomData<R>);

impl<R: FormatRule> CheckedText<R> {
    pub fn parse(text: &str) -> Result<Self, ErrorCode> {
        R::check(text).map(|()| Self(text.to_owned(), PhantomData))
    }

    /// A constant of ours, or what was made to fit.
    pub(crate) fn from_trusted(text: &str) -> Self {
        debug_assert!(R::check(text).is_ok(), "our own text keeps the rule");
        Self(text.to_owned(), PhantomData)
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The same letters, whatever their case: ids may come back in another one.
    #[must_use]
    pub fn eq_ignore_case(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl<R> Drop for CheckedText<R> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<R> fmt::Debug for CheckedText<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checked")
    }
}

impl<R> Clone for CheckedText<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<R> PartialEq for CheckedText<R> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<R> Eq for CheckedText<R> {}

impl<R: FormatRule> ElementFormat for CheckedText<R> {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        let parsed = value.as_str().ok_or(ErrorCode::FormatInvalid).and_then(Self::parse);
        parsed.map_err(|code| context.add_fault(code)).ok()
    }

    fn write(&self) -> Value {
        Value::String(self.0.clone())
    }
}

impl<R> Serialize for CheckedText<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de, R: FormatRule> Deserialize<'de> for CheckedText<R> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(|_| serde::de::Error::custom("not of this format"))
    }
}

/// The result of a check that has but one way to fail.
pub(crate) fn ensure_format(condition: bool) -> Result<(), ErrorCode> {
    if condition { Ok(()) } else { Err(ErrorCode::FormatInvalid) }
}
