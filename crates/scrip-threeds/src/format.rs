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
    code::Coded,
    fault::{ErrorCode, Faults},
    message::Scene,
};

/// Where a value stands in a message, and what was found wrong so far.
#[derive(Debug)]
pub struct Place<'a> {
    pub(crate) path: String,
    pub(crate) scene: &'a Scene,
    pub(crate) faults: &'a mut Faults,
}

impl Place<'_> {
    pub(crate) fn fault(&mut self, code: ErrorCode) {
        self.faults.add(code, self.path.clone());
    }

    /// What was read, or a fault when it does not have the format.
    pub(crate) fn expect<T>(&mut self, read: Option<T>) -> Option<T> {
        if read.is_none() {
            self.fault(ErrorCode::FormatInvalid);
        }
        read
    }

    /// The place of an element of this object.
    pub(crate) fn below(&mut self, name: &str) -> Place<'_> {
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{name}", self.path);
        Place { path, scene: self.scene, faults: self.faults }
    }
}

/// A data element, read and written.
pub trait Format: Sized {
    /// None if anything is wrong, which is then noted at the place.
    fn read(value: &Value, place: &mut Place<'_>) -> Option<Self>;

    fn write(&self) -> Value;
}

/// In messages a code stands for itself.
impl<C: Coded> Format for C {
    fn read(value: &Value, place: &mut Place<'_>) -> Option<Self> {
        place.expect(value.as_str().and_then(C::read_code))
    }

    fn write(&self) -> Value {
        Value::String(self.written())
    }
}

/// A rule about a text.
pub trait Rule {
    fn check(text: &str) -> Result<(), ErrorCode>;
}

/// A text that keeps the rule `R`. It is not printed and wiped when dropped: most of them tell
/// something of a person.
pub struct Checked<R>(String, PhantomData<R>);

impl<R: Rule> Checked<R> {
    pub fn parse(text: &str) -> Result<Self, ErrorCode> {
        R::check(text).map(|()| Self(text.to_owned(), PhantomData))
    }

    /// A constant of ours, or what was made to fit.
    pub(crate) fn ours(text: &str) -> Self {
        debug_assert!(R::check(text).is_ok(), "our own text keeps the rule");
        Self(text.to_owned(), PhantomData)
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The same letters, whatever their case: ids may come back in another one.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl<R> Drop for Checked<R> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<R> fmt::Debug for Checked<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checked")
    }
}

impl<R> Clone for Checked<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<R> PartialEq for Checked<R> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<R> Eq for Checked<R> {}

impl<R: Rule> Format for Checked<R> {
    fn read(value: &Value, place: &mut Place<'_>) -> Option<Self> {
        let read = value.as_str().ok_or(ErrorCode::FormatInvalid).and_then(Self::parse);
        read.map_err(|code| place.fault(code)).ok()
    }

    fn write(&self) -> Value {
        Value::String(self.0.clone())
    }
}

impl<R> Serialize for Checked<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de, R: Rule> Deserialize<'de> for Checked<R> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(|_| serde::de::Error::custom("not of this format"))
    }
}

/// The result of a check that has but one way to fail.
pub(crate) fn holds(condition: bool) -> Result<(), ErrorCode> {
    if condition { Ok(()) } else { Err(ErrorCode::FormatInvalid) }
}
