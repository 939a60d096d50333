//! The inputs of a filter, with typed access to its arguments. A missing or null argument has its
//! default value.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    budget::Budget,
    filter::json_path::JsonPathQuery,
    value::datum::{Datum, to_text},
};

pub(crate) type FilterResult<'a> = Result<Datum<'a>, &'static str>;

/// The inputs of a filter. The evaluator charges the budget for reading the value and the
/// arguments, and for the result. An amplifying filter must charge for its output before it
/// allocates.
pub(crate) struct Input<'c, 'a> {
    pub(crate) value: Datum<'a>,
    pub(crate) arguments: Arguments<'c, 'a>,
    pub(crate) budget: &'c Budget,
    pub(crate) host: Option<&'c dyn HostFunctions>,
    pub(crate) query: Option<&'c JsonPathQuery>,
}

type ReadArgument<T> = Result<T, &'static str>;

/// The arguments of one filter, in the order of its parameters.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'c, 'a>(pub(crate) &'c [Datum<'a>]);

impl<'c, 'a> Arguments<'c, 'a> {
    /// The argument unchanged; null if it is missing.
    pub(crate) fn datum(self, index: usize) -> Datum<'a> {
        self.0.get(index).cloned().unwrap_or_else(Datum::null)
    }

    pub(crate) fn non_null(self, index: usize) -> Option<&'c Value> {
        self.0.get(index).map(|it| &**it).filter(|it| !it.is_null())
    }

    pub(crate) fn text(self, index: usize) -> Cow<'c, str> {
        self.non_null(index).map(to_text).unwrap_or_default()
    }

    /// A number of characters, digits or items.
    pub(crate) fn count(self, index: usize, problem: &'static str) -> ReadArgument<Option<usize>> {
        let Some(value) = self.non_null(index) else { return Ok(None) };
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok()).ok_or(problem)?;
        Ok(Some(usize::try_from(number).unwrap_or(usize::MAX)))
    }

    pub(crate) fn integer(self, index: usize, problem: &'static str) -> ReadArgument<Option<i64>> {
        let Some(value) = self.non_null(index) else { return Ok(None) };
        Ok(Some(value.as_i64().or_else(|| value.as_str()?.parse().ok()).ok_or(problem)?))
    }

    /// The mask character; X by default.
    pub(crate) fn mask_character(self, index: usize, problem: &'static str) -> ReadArgument<char> {
        match self.non_null(index).map(to_text) {
            None => Ok('X'),
            Some(text) => single_character(&text).ok_or(problem),
        }
    }

    /// A boolean, also as text; false by default.
    pub(crate) fn flag(self, index: usize) -> ReadArgument<bool> {
        match self.non_null(index).map(to_text).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err("this argument must be 'true' or 'false'"),
        }
    }
}

pub(crate) fn single_character(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// The hash algorithm of an `hmac` filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HmacAlgorithm {
    Sha1,
    Sha256,
    Sha512,
}

impl HmacAlgorithm {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is = |name: &str| text.eq_ignore_ascii_case(name);
        match () {
            () if is("sha-1") => Some(Self::Sha1),
            () if is("sha-256") => Some(Self::Sha256),
            () if is("sha-512") => Some(Self::Sha512),
            () => None,
        }
    }
}

/// Provided by the caller, so that this crate names no algorithm and tests can repeat results.
pub trait HostFunctions {
    fn hmac(&self, algorithm: HmacAlgorithm, key: &[u8], message: &[u8]) -> Vec<u8>;
    fn fill_random(&self, bytes: &mut [u8]);
}
