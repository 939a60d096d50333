//! Filters over text.

use std::borrow::Cow;

use serde_json::Value;

use super::{Arguments, Filtered, Input, argument};
use crate::{
    OUTPUT_BYTES_MAX,
    inner_steps::{count, count_value},
    value::datum::{Datum, text_of},
};

/// For a filter that gives text for text.
pub(crate) fn over<'a>(value: Datum<'a>, change: impl FnOnce(&str) -> String) -> Filtered<'a> {
    if value.is_null() {
        return Ok(value);
    }
    let text = text_of(&value);
    let changed = change(&text);
    count(text.len().saturating_add(changed.len()));
    Ok(Datum::text(changed))
}

pub(crate) fn append<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    joined([text_of(&value), arguments.text(0)])
}

pub(crate) fn prepend<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    joined([arguments.text(0), text_of(&value)])
}

fn joined<'a>(parts: [Cow<'_, str>; 2]) -> Filtered<'a> {
    let text = parts.concat();
    count(text.len());
    Ok(Datum::text(text))
}

pub(crate) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars.as_str().to_lowercase().chars()).collect()
}

pub(crate) fn pad_left<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let padding = padding(&value, arguments)?;
    over(value, |text| padding + text)
}

pub(crate) fn pad_right<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let padding = padding(&value, arguments)?;
    over(value, |text| text.to_owned() + &padding)
}

fn padding(value: &Value, arguments: Arguments<'_, '_>) -> Result<String, &'static str> {
    const TAKES: &str = "padding takes a length and one character";
    let length = arguments.count(0, TAKES)?.ok_or(TAKES)?;
    let with = arguments.given(1).map_or(" ".into(), text_of);
    let with = argument::single(&with).ok_or(TAKES)?;
    if length > OUTPUT_BYTES_MAX {
        return Err("the output is too large");
    }
    let text = text_of(value);
    let missing = length.saturating_sub(text.chars().count());
    count(text.len().saturating_add(missing));
    Ok(std::iter::repeat_n(with, missing).collect())
}

/// From a place on, which counts from the end when negative; one character or item by default.
pub(crate) fn slice<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    const TAKES: &str = "slice takes a start and a length";
    let start = arguments.whole(0, TAKES)?.ok_or(TAKES)?;
    let length = arguments.whole(1, TAKES)?.unwrap_or(1);
    let length = usize::try_from(length).unwrap_or(0);
    let place = |size: usize| match usize::try_from(start) {
        Ok(start) => start,
        Err(_) => {
            let back = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
            // Before the beginning there is nothing.
            size.checked_sub(back).unwrap_or(usize::MAX)
        }
    };
    if let Value::Array(items) = &*value {
        let kept = items.iter().skip(place(items.len())).take(length);
        let kept = kept.inspect(|it| count_value(it)).cloned();
        return Ok(Datum::Owned(kept.collect()));
    }
    over(value, |text| text.chars().skip(place(text.chars().count())).take(length).collect())
}

/// Pieces between separators, without empty ones at the end; characters when there is none.
pub(crate) fn split<'a>(Input { value, arguments, budget, .. }: Input<'_, 'a>) -> Filtered<'a> {
    /// What a short text in a list takes in memory, at the least.
    const PIECE_BYTES: usize = 32;
    let (text, separator) = (text_of(&value), arguments.text(0));
    let pieces = if separator.is_empty() {
        text.chars().count()
    } else {
        text.matches(&*separator).count().saturating_add(1)
    };
    count(text.len().saturating_add(separator.len()));
    budget.bytes(pieces.saturating_mul(PIECE_BYTES))?;
    count(text.len().saturating_add(pieces));
    let mut items: Vec<Value> = if separator.is_empty() {
        text.chars().map(|it| Value::String(it.into())).collect()
    } else {
        text.split(&*separator).map(Value::from).collect()
    };
    while items.last().and_then(Value::as_str) == Some("") {
        items.pop();
    }
    Ok(Datum::Owned(Value::Array(items)))
}

/// To a length that counts the ellipsis.
pub(crate) fn truncate<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let length = arguments.count(0, "truncate takes a length")?.unwrap_or(50);
    let ellipsis = arguments.given(1).map_or("...".into(), text_of);
    over(value, |text| {
        if text.chars().count() <= length {
            return text.to_owned();
        }
        let kept = length.saturating_sub(ellipsis.chars().count());
        text.chars().take(kept).chain(ellipsis.chars()).collect()
    })
}

pub(crate) fn truncatewords<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let words = arguments.count(0, "truncatewords takes a number of words")?;
    let words = words.unwrap_or(15).max(1);
    let ellipsis = arguments.given(1).map_or("...".into(), text_of);
    over(value, |text| {
        if text.split_whitespace().count() <= words {
            return text.to_owned();
        }
        let kept: Vec<&str> = text.split_whitespace().take(words).collect();
        [kept.join(" ").as_str(), &ellipsis].concat()
    })
}
