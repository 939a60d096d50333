//! Arguments, as filters want them. One that is missing or null is the default.

use std::borrow::Cow;

use serde_json::Value;

use crate::value::datum::{Datum, text_of};

pub(crate) fn given<'v>(arguments: &'v [Datum<'_>], place: usize) -> Option<&'v Value> {
    arguments.get(place).map(|it| &**it).filter(|it| !it.is_null())
}

pub(crate) fn text<'v>(arguments: &'v [Datum<'_>], place: usize) -> Cow<'v, str> {
    given(arguments, place).map(text_of).unwrap_or_default()
}

/// A number of characters, digits or items.
pub(crate) fn count(
    arguments: &[Datum<'_>],
    place: usize,
    problem: &'static str,
) -> Result<Option<usize>, &'static str> {
    let Some(value) = given(arguments, place) else { return Ok(None) };
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok()).ok_or(problem)?;
    Ok(Some(usize::try_from(number).unwrap_or(usize::MAX)))
}

pub(crate) fn whole(
    arguments: &[Datum<'_>],
    place: usize,
    problem: &'static str,
) -> Result<Option<i64>, &'static str> {
    let Some(value) = given(arguments, place) else { return Ok(None) };
    Ok(Some(value.as_i64().or_else(|| value.as_str()?.parse().ok()).ok_or(problem)?))
}

/// The character that covers; X unless another is given.
pub(crate) fn cover(
    arguments: &[Datum<'_>],
    place: usize,
    problem: &'static str,
) -> Result<char, &'static str> {
    match given(arguments, place).map(text_of) {
        None => Ok('X'),
        Some(text) => single(&text).ok_or(problem),
    }
}

pub(crate) fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Yes or no, also as text; no unless it is given.
pub(crate) fn flag(arguments: &[Datum<'_>], place: usize) -> Result<bool, &'static str> {
    match given(arguments, place).map(text_of).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err("this argument is 'true' or 'false'"),
    }
}
