//! Arguments, as filters want them. One that is missing or null is the default.

use std::borrow::Cow;

use serde_json::Value;

use crate::value::datum::{Datum, text_of};

type Read<T> = Result<T, &'static str>;

/// The arguments of one filter, in the order of its parameters.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'c, 'a>(pub(crate) &'c [Datum<'a>]);

impl<'c, 'a> Arguments<'c, 'a> {
    /// As it is; null when it is missing.
    pub(crate) fn datum(self, place: usize) -> Datum<'a> {
        self.0.get(place).cloned().unwrap_or_else(Datum::null)
    }

    pub(crate) fn given(self, place: usize) -> Option<&'c Value> {
        self.0.get(place).map(|it| &**it).filter(|it| !it.is_null())
    }

    pub(crate) fn text(self, place: usize) -> Cow<'c, str> {
        self.given(place).map(text_of).unwrap_or_default()
    }

    /// A number of characters, digits or items.
    pub(crate) fn count(self, place: usize, problem: &'static str) -> Read<Option<usize>> {
        let Some(value) = self.given(place) else { return Ok(None) };
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok()).ok_or(problem)?;
        Ok(Some(usize::try_from(number).unwrap_or(usize::MAX)))
    }

    pub(crate) fn whole(self, place: usize, problem: &'static str) -> Read<Option<i64>> {
        let Some(value) = self.given(place) else { return Ok(None) };
        Ok(Some(value.as_i64().or_else(|| value.as_str()?.parse().ok()).ok_or(problem)?))
    }

    /// The character that covers; X unless another is given.
    pub(crate) fn cover(self, place: usize, problem: &'static str) -> Read<char> {
        match self.given(place).map(text_of) {
            None => Ok('X'),
            Some(text) => single(&text).ok_or(problem),
        }
    }

    /// Yes or no, also as text; no unless it is given.
    pub(crate) fn flag(self, place: usize) -> Read<bool> {
        match self.given(place).map(text_of).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err("this argument is 'true' or 'false'"),
        }
    }
}

pub(crate) fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}
