//! Text that has passed a check.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use zeroize::Zeroize;

use crate::{
    fault::ErrorCode,
    format::{ElementContext, ElementFormat},
};

/// A format rule for text.
pub trait FormatRule {
    fn check(text: &str) -> Result<(), ErrorCode>;
}

/// Text that satisfies the rule `R`. It is never printed and is wiped when dropped, because most
/// values are personal data.
pub struct CheckedText<R>(String, PhantomData<R>);

impl<R: FormatRule> CheckedText<R> {
    pub fn parse(text: &str) -> Result<Self, ErrorCode> {
        R::check(text).map(|()| Self(text.to_owned(), PhantomData))
    }

    /// For our own constants and values that were built to satisfy the rule.
    pub(crate) fn from_trusted(text: &str) -> Self {
        debug_assert!(R::check(text).is_ok(), "trusted text satisfies the rule");
        Self(text.to_owned(), PhantomData)
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares without regard to case: ids may be returned in another case.
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
        f.write_str("CheckedText")
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
        Self::parse(&text).map_err(|_| serde::de::Error::custom("invalid format"))
    }
}

/// The result of a check that has only one error.
pub(crate) fn ensure_format(condition: bool) -> Result<(), ErrorCode> {
    if condition { Ok(()) } else { Err(ErrorCode::FormatInvalid) }
}
